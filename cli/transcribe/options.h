// The options of `transcribe`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/options.h"
#include "cli/transcribe/recordings.h"
#include "decoder/transcript/writers.h"
#include "session/speech_options.h"

namespace vesper {

struct TranscribeArguments {
  InputSelection inputs;
  ReaderOptions reader;        // how to read each of them
  std::string model = "base";  // a name or a path
  std::vector<TranscriptFormat> formats = {TranscriptFormat::kTxt};
  // Where files go; absent: beside each input.
  std::optional<std::filesystem::path> output_folder;
  bool to_stdout = true;         // rather than to files
  SpeechSessionOptions session;  // without the VAD model
  SpeechOptions speech;
  WriterOptions writers;
  bool detect_language = false;  // and nothing else
  // Live captions of the only input, with so many seconds from look to look.
  std::optional<double> stream_step_s;
  bool resume = false;     // pass over what is complete
  bool jobs_json = false;  // progress as JSON lines on stderr
  bool offline = false, quiet = false, verbose = false;

  // What the command line says; parse_transcribe_options() derives settings above from it.
  struct Given {
    std::string output_folder, color = "never";
    bool stream = false, vad = false;
    bool split_channels = false, diarize = false;
    double stream_step_s = 1;
    SpeechSettings speech;
    std::optional<RawPcm::Encoding> pcm;
    RawPcm raw;
    std::optional<double> temperature_increment = kFallbackIncrement;
  } given = {};
};

// The table of options, which store into `arguments`.
OptionTable transcribe_options(TranscribeArguments& arguments);

// Returns the text to print instead of working, for --help and the like. Throws Error(kUsage).
std::optional<std::string> parse_transcribe_options(int argc, const char* const* argv,
                                                    TranscribeArguments& arguments);

}  // namespace vesper

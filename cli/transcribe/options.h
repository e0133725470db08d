// The options of `transcribe`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/options.h"
#include "cli/transcribe/recordings.h"
#include "decoder/transcript/writers.h"
#include "session/speech/speech_options.h"

namespace vesper {

struct TranscribeArguments {
  InputSelection inputs;
  ReaderOptions reader;        // used for each input
  std::string model = "base";  // a name or a path
  std::vector<TranscriptFormat> formats = {TranscriptFormat::kTxt};
  // Where output files are written. Default: beside each input.
  std::optional<std::filesystem::path> output_folder;
  bool to_stdout = true;         // print instead of writing files
  SpeechSessionOptions session;  // its VAD model is set later
  SpeechOptions speech;
  WriterOptions writers;
  bool detect_language = false;  // only detect the language
  // Live captions of the only input, updated after this many seconds of audio.
  std::optional<double> stream_step_s;
  bool resume = false;     // skip inputs whose output is complete
  bool jobs_json = false;  // progress as JSON lines on stderr
  bool offline = false, quiet = false, verbose = false;

  // What the command line contains; parse_transcribe_options() derives the settings above from it.
  struct Given {
    std::string output_folder, color = "never";
    std::string grammar_file;
    bool stream = false, vad = false;
    bool split_channels = false, diarize = false;
    double stream_step_s = 1;
    SpeechSettings speech;
    std::optional<RawPcm::Encoding> pcm;
    RawPcm raw;
    std::optional<double> temperature_increment = kFallbackIncrement;
  } given = {};
};

// The table of options. Parsing stores their values in `arguments`.
OptionTable transcribe_options(TranscribeArguments& arguments);

// Returns text to print instead of working (--help, for example). Throws Error(kUsage).
std::optional<std::string> parse_transcribe_options(int argc, const char* const* argv,
                                                    TranscribeArguments& arguments);

}  // namespace vesper

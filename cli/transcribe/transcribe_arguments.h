// The command line of `transcribe`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/input_files.h"
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
  // Live captions of the only input, with so many seconds from guess to guess.
  std::optional<double> stream_step_s;
  bool resume = false;     // pass over what is complete
  bool jobs_json = false;  // progress as JSON lines on stderr
  bool offline = false, quiet = false, verbose = false;
};

struct TranscribeCommand {
  // Help or the version, if that is what was asked for: print it and end.
  std::optional<std::string> answer;
  TranscribeArguments arguments;
};

// Throws Error(kUsage) naming the option, what it expects and what was given.
TranscribeCommand parse_transcribe_arguments(int argc, const char* const* argv);

}  // namespace vesper

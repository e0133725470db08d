// The command line of `transcribe`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/transcription_engine.h"
#include "decoder/writers.h"

namespace vesper {

struct TranscribeArguments {
  std::vector<std::string> inputs;  // paths; "-" is standard input
  std::string model = "base";       // a name or a path
  std::vector<TranscriptFormat> formats = {TranscriptFormat::kTxt};
  // Where files go; absent: beside the input, or standard output for a single format.
  std::optional<std::filesystem::path> output_folder;
  bool to_stdout = true;  // rather than to files
  EngineSettings engine;  // without the model's path
  DecodingSettings decoding;
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

// The options of `inspect`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/options.h"

namespace vesper {

enum class InspectMode {
  kSummary,
  kMetadata,
  kTensors,
  kTokenizer,
  kChecksum,
  kVerify,
  kDiff,
  kDevices,
  kTable,
  kProfile,
};

struct InspectArguments {
  InspectMode mode = InspectMode::kSummary;
  std::vector<std::string> models;   // names or paths: one; two for kDiff, none for kDevices
  std::string recording;             // that kProfile transcribes; empty: noise
  std::vector<std::string> filters;  // globs over names of tensors and keys; empty: everything
  std::string text;                  // what kTokenizer splits
  std::string device = "auto";       // for what is run, or asked what it would run
  std::string compute = "auto";
  std::string trace, csv;    // files that kProfile writes, where asked to
  bool per_command = false;  // kProfile: a clock after each command, not only at barriers
  bool statistics = false;   // of the numbers in tensors
  bool json = false;
  bool offline = false;
  uint32_t threads = 0;  // 0: as many as there are cores
};

// The table of options, which store into `arguments`.
OptionTable inspect_options(InspectArguments& arguments);

// Returns the text to print instead of working, for --help and the like. Throws Error(kUsage).
std::optional<std::string> parse_inspect_options(int argc, const char* const* argv,
                                                 InspectArguments& arguments);

}  // namespace vesper

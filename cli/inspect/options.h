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
  kModels,
  kTable,
  kProfile,
  kConvert,
};

struct InspectArguments {
  InspectMode mode = InspectMode::kSummary;
  std::vector<std::string>
      models;             // names or paths: one; two for kDiff, none for kDevices and kModels
  std::string recording;  // input of kProfile; empty: noise
  std::vector<std::string> filters;  // globs for names of tensors and keys; empty: all
  std::string text;                  // input of kTokenizer
  std::string output;                // of kConvert
  std::string type;                  // of kConvert: a mixture's name
  std::string device = "auto";       // to run on, or to plan for
  std::string compute = "auto";
  KvTypes kv_types = {};     // of the planned KV cache
  std::string trace, csv;    // output files of kProfile, optional
  bool per_command = false;  // kProfile: clock after each command instead of at barriers
  bool statistics = false;   // of the elements of tensors
  bool json = false;
  bool offline = false;
  uint32_t threads = 0;  // 0: one per core
};

// The table of options, which store into `arguments`.
OptionTable inspect_options(InspectArguments& arguments);

// Returns the text to print instead of working, for --help and the like. Throws Error(kUsage).
std::optional<std::string> parse_inspect_options(int argc, const char* const* argv,
                                                 InspectArguments& arguments);

}  // namespace vesper

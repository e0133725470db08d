// The options that say how speech is decoded: language, task, search, thresholds, prompts, clips.
#pragma once

#include <optional>

#include "decoder/decoding_settings.h"

namespace vesper {

class CommandLine;

class DecodingOptions {
 public:
  // Adds them to `line`; what is given changes `decoding`. Both outlive this.
  DecodingOptions(CommandLine& line, DecodingSettings& decoding);
  DecodingOptions(const DecodingOptions&) = delete;
  DecodingOptions& operator=(const DecodingOptions&) = delete;

  // Once all are read: settles what several of them decide together. Throws Error(kUsage).
  void finish();

 private:
  void add_language(CommandLine& line);
  void add_search(CommandLine& line);
  void add_thresholds(CommandLine& line);
  void add_prompts(CommandLine& line);
  void add_times(CommandLine& line);

  DecodingSettings& decoding_;
  std::optional<double> increment_;  // of the temperature, from try to try
  bool temperature_is_given_ = false, increment_is_given_ = false, patience_is_given_ = false;
  bool is_reference_ = false;
};

}  // namespace vesper

// The options that say how speech is decoded: language, task, search, thresholds, prompts, clips.
#pragma once

#include <optional>

#include "decoder/decoding_settings.h"

namespace CLI {
class App;
}

namespace vesper {

class DecodingOptions {
 public:
  // Adds them to `app`; what is given changes `decoding`. Both outlive this.
  DecodingOptions(CLI::App& app, DecodingSettings& decoding);
  DecodingOptions(const DecodingOptions&) = delete;
  DecodingOptions& operator=(const DecodingOptions&) = delete;

  // Once all are read: settles what several of them decide together, and what is different for a
  // live stream. Throws Error(kUsage).
  void finish(bool is_live);

 private:
  void add_language(CLI::App& app);
  void add_search(CLI::App& app);
  void add_thresholds(CLI::App& app);
  void add_prompts(CLI::App& app);
  void add_times(CLI::App& app);

  DecodingSettings& decoding_;
  std::optional<double> increment_;  // of the temperature, from try to try
  bool increment_is_given_ = false, patience_is_given_ = false;
  bool beam_size_is_given_ = false;
};

}  // namespace vesper

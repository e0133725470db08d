// Settings for a single greedy attempt, for tests that are not about the search.
#pragma once

#include "decoder/decoding_settings.h"

namespace vesper {

inline DecodingSettings greedy_settings() {
  DecodingSettings settings;
  settings.temperatures = {0};
  settings.beam_size = 1;
  return settings;
}

}  // namespace vesper

// The audio of a realtime client: base64 texts to 16 kHz samples.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "audio/resample.h"

namespace vesper {

// Mono: 16-bit integers at 24 kHz, or a byte for each sample at 8 kHz (ITU-T G.711).
enum class InputFormat { kPcm16, kMuLaw, kALaw };

class InputAudio {
 public:
  explicit InputAudio(InputFormat format);

  // The samples that the bytes of `base64` (RFC 4648, padded) determine, [n], 16 kHz mono. A sample
  // may be in two texts. Throws ApiError(400).
  std::vector<float> samples(std::string_view base64);

 private:
  InputFormat format_;
  Resampler resampler_;
  std::optional<unsigned char> half_;  // of a 16-bit sample
};

// A sample of G.711, full scale +-1.
float mu_law_sample(unsigned char code);
float a_law_sample(unsigned char code);

}  // namespace vesper

// Halves a sample rate with a half-band filter, the first stage of the resampler for high rates.
//
// Every second tap of a half-band filter is zero, and the others are symmetric: an output sample of
// 44.1 -> 22.05 kHz takes 16 products. Only what would alias into the band that the next stage
// keeps is removed, so that the filter is short.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace vesper {

class HalfBandDecimator {
 public:
  // Flat (1e-6) up to `keep` cycles per input sample, less than 0.25; -120 dB for what aliases to
  // there. The first `n_before` input samples are before time 0.
  HalfBandDecimator(double keep, size_t n_before);

  // The output that these samples determine, valid until the next call.
  std::span<const float> push(std::span<const float> samples);

  // Output samples before time 0.
  size_t n_before() const { return n_before_; }

 private:
  // Samples that an output reaches.
  size_t n_reached() const { return 4 * taps_.size() - 1; }
  // Outputs that `n_samples` determine if the first one begins with them.
  size_t n_outputs(size_t n_samples) const;
  void filter(const float* samples, float* out, size_t n) const;

  std::vector<float> taps_;  // at 1, 3, 5, ... samples from the center
  std::vector<float> kept_;  // input from the first sample of the next output on
  size_t n_before_;
  std::vector<float> out_;
};

}  // namespace vesper

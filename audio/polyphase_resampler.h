// A polyphase FIR resampler for rates in a simple ratio to 16 kHz, used by audio/resample.
//
// libsamplerate's best converter interpolates its filter for every tap of every sample: at 44.1 kHz
// this takes longer than a small model takes to transcribe. If the ratio is L / M in lowest terms,
// only L different filters occur. They are tabulated here, so an output sample is one dot product.
// Its length is proportional to the input rate, so a high rate is first halved by short filters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "audio/half_band.h"

namespace vesper {

class PolyphaseResampler {
 public:
  // Of a dot product, so that its result is the same for every instruction set.
  static constexpr size_t kPartialSums = 16;
  // Consecutive outputs whose filters read the same window of the input.
  static constexpr size_t kGroup = 4;

  // Whether the filter table is small (1 MiB) for this pair of rates.
  static bool suits(int from_hz, int to_hz);

  // A Kaiser-windowed sinc: flat to 96.5% of the smaller Nyquist frequency, -100 dB from 101.5% on.
  // No delay: output sample 0 is at input sample 0.
  PolyphaseResampler(int from_hz, int to_hz);

  // Appends to `out` the output that [n] more samples determine.
  void push(const float* samples, size_t n, std::vector<float>& out);

  // Appends the rest; the whole output has round(n_in * to_hz / from_hz) samples.
  void finish(std::vector<float>& out);

 private:
  // Of a group of filters, for kPartialSums samples of the window.
  struct alignas(64) Taps {
    float of_output[kGroup][kPartialSums];
  };

  void halve(std::span<const float> samples);
  void produce(std::vector<float>& out);
  uint64_t window_of(uint64_t group) const;
  const Taps* filters_of(uint64_t group) const;
  void run_groups(uint64_t first, uint64_t end, float* out) const;

  uint64_t from_hz_, to_hz_;
  std::vector<HalfBandDecimator> halvings_;

  // After the halvings. A group of outputs has a window of `n_window_` input samples.
  uint64_t up_, down_;          // L and M
  uint64_t n_filter_groups_;    // groups until the filters repeat
  size_t n_window_;             // multiple of kPartialSums
  std::vector<Taps> filters_;   // [n_filter_groups, n_window / kPartialSums]
  std::vector<float> pending_;  // input from window sample first_pending_ on
  uint64_t first_pending_ = 0;
  uint64_t n_groups_ = 0;  // computed
  uint64_t n_in_ = 0;      // samples pushed
};

}  // namespace vesper

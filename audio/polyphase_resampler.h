// A polyphase FIR resampler for rates in a simple ratio to 16 kHz, used by audio/resample.
//
// libsamplerate's best converter interpolates its filter for every tap of every sample: at 44.1 kHz
// this takes longer than a small model takes to transcribe. If the ratio is L / M in lowest terms,
// only L different filters occur. They are tabulated here, so an output sample is one dot product.
// High rates are halved before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "audio/half_band.h"

namespace vesper {

class PolyphaseResampler {
 public:
  // Of a dot product, so that its result is the same for every instruction set.
  static constexpr size_t kPartialSums = 16;

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
  // The rate after the halvings of from_hz.
  static int halved(int from_hz, int to_hz);
  void halve(const float* samples, size_t n, size_t stage);
  void produce(uint64_t n_wanted, std::vector<float>& out);

  uint64_t from_hz_, to_hz_;
  std::vector<HalfBand> halvings_;
  std::vector<std::vector<float>> halves_;  // of one push, after each halving
  uint64_t up_, down_;                      // L and M, after the halvings
  size_t half_taps_;                        // input samples of a filter to each side
  size_t n_taps_;               // per filter, 2 * half_taps_, a multiple of kPartialSums
  std::vector<float> filters_;  // [L, n_taps]
  std::vector<float> pending_;  // input from sample first_pending_ - half_taps_ + 1 on
  uint64_t first_pending_ = 0;
  uint64_t n_source_ = 0;          // input of push()
  uint64_t n_in_ = 0, n_out_ = 0;  // input after the halvings, output
};

}  // namespace vesper

// A decimation by two with a half-band filter, used by audio/polyphase_resampler.
//
// Every second tap of such a filter is zero but for the middle one, and the others are symmetric
// (Crochiere and Rabiner, Multirate Digital Signal Processing, 1983).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vesper {

class HalfBand {
 public:
  // Keeps frequencies up to `pass`, in cycles per input sample, below 0.25. What would alias there
  // becomes -attenuation_db.
  HalfBand(double pass, double attenuation_db);

  // Appends to `out` the output that [n] more samples determine. No delay: output sample j is at
  // input sample 2 j.
  void push(const float* samples, size_t n, std::vector<float>& out);

  // Appends the rest, as if silence followed; the whole output has one sample for two, rounded up.
  void finish(std::vector<float>& out);

 private:
  void take(const float* samples, size_t n);
  // Appends outputs up to `n_wanted` since the beginning.
  void produce(uint64_t n_wanted, std::vector<float>& out);

  std::vector<float> taps_;  // of the inputs at 1, 3, 5, ... before and after the middle
  std::vector<float> even_;  // inputs 2 j from output j = n_out_ on
  std::vector<float> odd_;   // inputs 2 j + 1 from j = n_out_ - taps_.size() on
  uint64_t n_in_ = 0, n_out_ = 0;
};

}  // namespace vesper

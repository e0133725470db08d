// Streaming resampler to 16 kHz. Rates in a simple ratio to 16 kHz (44.1, 48, 22.05, 8 kHz, ...)
// use the tabulated filters of PolyphaseResampler. Other rates use libsamplerate's best sinc
// converter, which needs no table but 100 times as long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vesper {

class PolyphaseResampler;

constexpr int kSampleRateHz = 16000;  // of everything after the resampler

class Resampler {
 public:
  // `from_hz`: 1000 to 768000, the range of AudioReader. Throws Error(kInternal) for other rates.
  explicit Resampler(int from_hz);
  ~Resampler();

  // Appends to `out` the output that [n] more samples determine. 16 kHz is copied unchanged.
  void push(const float* samples, size_t n, std::vector<float>& out);

  // Appends the rest; the whole output has round(n_in * 16000 / from_hz) samples.
  void finish(std::vector<float>& out);

 private:
  struct Close {
    void operator()(void* converter) const;
  };

  void convert(const float* samples, size_t n, bool is_last, std::vector<float>& out);

  int from_hz_;
  std::unique_ptr<PolyphaseResampler> polyphase_;  // simple ratios
  std::unique_ptr<void, Close> converter_;  // SRC_STATE, other ratios; both are null at 16 kHz
  uint64_t n_in_ = 0, n_out_ = 0;
};

}  // namespace vesper

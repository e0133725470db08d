#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "audio/half_band.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vesper::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// out[j] = even[j] / 2 + the sum of taps[k] * (odd[j + n_taps - 1 - k] + odd[j + n_taps + k]),
// always in the same order.
void run_half_band(const float* HWY_RESTRICT taps, size_t n_taps, const float* HWY_RESTRICT even,
                   const float* HWY_RESTRICT odd, float* HWY_RESTRICT out, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    auto sum = hn::Mul(hn::Set(d, 0.5f), hn::LoadU(d, even + j));
    for (size_t k = 0; k < n_taps; ++k) {
      const auto both =
          hn::Add(hn::LoadU(d, odd + j + n_taps - 1 - k), hn::LoadU(d, odd + j + n_taps + k));
      sum = hn::Add(sum, hn::Mul(hn::Set(d, taps[k]), both));
    }
    hn::StoreU(sum, d, out + j);
  }
  for (; j < n; ++j) {
    float sum = 0.5f * even[j];
    for (size_t k = 0; k < n_taps; ++k) {
      sum += taps[k] * (odd[j + n_taps - 1 - k] + odd[j + n_taps + k]);
    }
    out[j] = sum;
  }
}

}  // namespace vesper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "audio/half_band.h"
#include "audio/kaiser_window.h"
#include "error/tasks.h"

namespace vesper {
HWY_EXPORT(run_half_band);

namespace {

// Several times the work of waking a thread.
constexpr size_t kOutputsPerTask = size_t{1} << 14;

}  // namespace

HalfBand::HalfBand(double pass, double attenuation_db) {
  const double to_each_side = kaiser_length(attenuation_db, 0.5 - 2 * pass) / 2;
  const auto n_taps = static_cast<size_t>(std::ceil((to_each_side + 1) / 2));
  const double reach = 2 * static_cast<double>(n_taps);
  std::vector<double> taps;
  double sum = 0;
  for (size_t k = 0; k < n_taps; ++k) {
    const double t = 2 * static_cast<double>(k) + 1;
    taps.push_back(sinc(t / 2) * kaiser_window(t / reach, attenuation_db));
    sum += taps.back();
  }
  // The middle tap is 1/2, and each side has half of the rest.
  for (const double tap : taps) taps_.push_back(static_cast<float>(tap / sum / 4));
  odd_.assign(n_taps, 0.0f);
}

void HalfBand::take(const float* samples, size_t n) {
  size_t i = 0;
  if (n > 0 && n_in_ % 2 == 1) odd_.push_back(samples[i++]);
  const size_t n_pairs = (n - i) / 2, n_even = even_.size(), n_odd = odd_.size();
  even_.resize(n_even + n_pairs);
  odd_.resize(n_odd + n_pairs);
  for (size_t pair = 0; pair < n_pairs; ++pair) {
    even_[n_even + pair] = samples[i + 2 * pair];
    odd_[n_odd + pair] = samples[i + 2 * pair + 1];
  }
  if (i + 2 * n_pairs < n) even_.push_back(samples[n - 1]);
  n_in_ += n;
}

void HalfBand::push(const float* samples, size_t n, std::vector<float>& out) {
  take(samples, n);
  // Output j needs the inputs up to 2 (j + n_taps) - 1.
  const uint64_t after = 2 * taps_.size();
  if (n_in_ >= after) produce((n_in_ - after) / 2 + 1, out);
}

void HalfBand::finish(std::vector<float>& out) {
  const uint64_t n_wanted = (n_in_ + 1) / 2;
  const std::vector<float> silence(2 * taps_.size() + 1, 0.0f);
  take(silence.data(), silence.size());
  produce(n_wanted, out);
}

void HalfBand::produce(uint64_t n_wanted, std::vector<float>& out) {
  if (n_wanted <= n_out_) return;
  const auto n = static_cast<size_t>(n_wanted - n_out_);
  const size_t before = out.size();
  out.resize(before + n);
  run_tasks((n + kOutputsPerTask - 1) / kOutputsPerTask, /*n_threads=*/0, [&](size_t task) {
    const size_t first = task * kOutputsPerTask;
    HWY_DYNAMIC_DISPATCH(run_half_band)
    (taps_.data(), taps_.size(), even_.data() + first, odd_.data() + first,
     out.data() + before + first, std::min(kOutputsPerTask, n - first));
  });
  even_.erase(even_.begin(), even_.begin() + static_cast<std::ptrdiff_t>(n));
  odd_.erase(odd_.begin(), odd_.begin() + static_cast<std::ptrdiff_t>(n));
  n_out_ = n_wanted;
}

}  // namespace vesper
#endif  // HWY_ONCE

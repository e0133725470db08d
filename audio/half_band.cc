#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "audio/half_band.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "audio/half_band.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vesper::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Writes N vectors of outputs. The order of operations of an output is that of its lane, so that
// every vector length gives the same bits.
template <size_t N, class D>
void half_band_vectors(D d, const float* HWY_RESTRICT taps, size_t n_taps,
                       const float* HWY_RESTRICT even, const float* HWY_RESTRICT odd,
                       float* HWY_RESTRICT out) {
  using V = hn::Vec<D>;
  constexpr size_t kWidth = hn::MaxLanes(d);
  V sums[N];
  for (size_t v = 0; v < N; ++v) sums[v] = hn::Zero(d);
  for (size_t k = n_taps; k-- > 0;) {
    const V tap = hn::Set(d, taps[k]);
    for (size_t v = 0; v < N; ++v) {
      const V before = hn::LoadU(d, odd + v * kWidth + n_taps - 1 - k);
      const V after = hn::LoadU(d, odd + v * kWidth + n_taps + k);
      sums[v] = hn::Add(sums[v], hn::Mul(tap, hn::Add(before, after)));
    }
  }
  for (size_t v = 0; v < N; ++v) {
    const V center = hn::Mul(hn::Set(d, 0.5f), hn::LoadU(d, even + v * kWidth));
    hn::StoreU(hn::Add(sums[v], center), d, out + v * kWidth);
  }
}

// out[i], [n], is the filter around even[i]. `odd` begins n_taps samples before `even`.
void run_half_band(const float* HWY_RESTRICT taps, size_t n_taps, const float* HWY_RESTRICT even,
                   const float* HWY_RESTRICT odd, float* HWY_RESTRICT out, size_t n) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 1> single;
  constexpr size_t kVectors = 4, kStep = kVectors * hn::MaxLanes(d);
  size_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    half_band_vectors<kVectors>(d, taps, n_taps, even + i, odd + i, out + i);
  }
  for (; i < n; ++i) half_band_vectors<1>(single, taps, n_taps, even + i, odd + i, out + i);
}

}  // namespace vesper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "audio/kaiser_filter.h"

namespace vesper {
HWY_EXPORT(run_half_band);

namespace {

constexpr double kAttenuationDb = 125.0;

}  // namespace

HalfBandDecimator::HalfBandDecimator(double keep, size_t n_before) {
  // To each side. The window ends at a tap that is zero.
  const auto n_taps =
      static_cast<size_t>(std::ceil(kaiser_length(kAttenuationDb, 0.5 - 2.0 * keep) / 4.0));
  const double reach = 2.0 * static_cast<double>(n_taps);
  std::vector<double> taps(n_taps);
  double sum = 0.0;
  for (size_t k = 0; k < n_taps; ++k) {
    taps[k] = kaiser_tap(2.0 * static_cast<double>(k) + 1.0, 0.25, reach, kAttenuationDb);
    sum += taps[k];
  }
  // Both sides have half of the gain, the tap in the center has the other half.
  for (const double tap : taps) taps_.push_back(static_cast<float>(0.25 * tap / sum));

  // Zeros before the input: output begins where the filter reaches the first sample, and time 0 is
  // at an output.
  const size_t n_zeros = 2 * n_taps - (n_before % 2);
  n_before_ = (n_before + n_zeros) / 2;
  even_.assign((n_zeros + 1) / 2, 0.0f);
  odd_.assign(n_taps + n_zeros / 2, 0.0f);
  next_is_odd_ = n_zeros % 2 == 1;
}

std::span<const float> HalfBandDecimator::push(std::span<const float> samples) {
  if (next_is_odd_ && !samples.empty()) {
    odd_.push_back(samples.front());
    samples = samples.subspan(1);
    next_is_odd_ = false;
  }
  const size_t n_pairs = samples.size() / 2, n_even = even_.size(), n_odd = odd_.size();
  even_.resize(n_even + n_pairs);
  odd_.resize(n_odd + n_pairs);
  for (size_t i = 0; i < n_pairs; ++i) {
    even_[n_even + i] = samples[2 * i];
    odd_[n_odd + i] = samples[2 * i + 1];
  }
  if (samples.size() % 2 == 1) {
    even_.push_back(samples.back());
    next_is_odd_ = true;
  }
  // Output i is around even_[i] and reaches to odd_[i + 2 * n_taps - 1].
  const size_t n_taps = taps_.size();
  const size_t n = std::min(even_.size(), odd_.size() - std::min(odd_.size(), 2 * n_taps - 1));
  out_.resize(n);
  HWY_DYNAMIC_DISPATCH(run_half_band)
  (taps_.data(), n_taps, even_.data(), odd_.data(), out_.data(), n);
  even_.erase(even_.begin(), even_.begin() + static_cast<std::ptrdiff_t>(n));
  odd_.erase(odd_.begin(), odd_.begin() + static_cast<std::ptrdiff_t>(n));
  return out_;
}

}  // namespace vesper
#endif  // HWY_ONCE

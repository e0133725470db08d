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
#include "error/tasks.h"

namespace vesper {
HWY_EXPORT(run_half_band);

namespace {

constexpr double kAttenuationDb = 125.0;
// Outputs computed at once: with their input and its even and odd samples 40 KiB, which stay in the
// L1 cache.
constexpr size_t kOutputsAtOnce = 2048;
// Outputs of a task, which take several times as long as waking a thread.
constexpr size_t kOutputsPerTask = size_t{1} << 16;
constexpr size_t kMostTasks = 8;

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
  kept_.assign(2 * n_taps - 1 + n_zeros, 0.0f);
}

size_t HalfBandDecimator::n_outputs(size_t n_samples) const {
  return n_samples < n_reached() ? 0 : (n_samples - n_reached()) / 2 + 1;
}

// Output i, [n], reaches from sample 2 * i on.
void HalfBandDecimator::filter(const float* samples, float* out, size_t n) const {
  const size_t n_taps = taps_.size();
  std::vector<float> even(std::min(n, kOutputsAtOnce)), odd(even.size() + 2 * n_taps - 1);
  for (size_t done = 0; done < n; done += kOutputsAtOnce) {
    const size_t n_now = std::min(n - done, kOutputsAtOnce), n_odd = n_now + 2 * n_taps - 1;
    const float* const from = samples + 2 * done;
    for (size_t i = 0; i < n_now; ++i) even[i] = from[2 * (i + n_taps) - 1];
    for (size_t i = 0; i < n_odd; ++i) odd[i] = from[2 * i];
    HWY_DYNAMIC_DISPATCH(run_half_band)
    (taps_.data(), n_taps, even.data(), odd.data(), out + done, n_now);
  }
}

std::span<const float> HalfBandDecimator::push(std::span<const float> samples) {
  // The outputs that reach samples of previous calls, then those that do not.
  const size_t n_kept = kept_.size();
  const size_t n_joined = std::min(n_kept + n_reached(), samples.size());
  kept_.insert(kept_.end(), samples.begin(),
               samples.begin() + static_cast<std::ptrdiff_t>(n_joined));
  const size_t n_first = n_outputs(kept_.size()), n_all = n_outputs(n_kept + samples.size());
  out_.resize(n_all);
  filter(kept_.data(), out_.data(), n_first);
  if (n_joined == samples.size()) {
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(2 * n_first));
    return out_;
  }
  const float* const rest = samples.data() + (2 * n_first - n_kept);
  const size_t n_rest = n_all - n_first;
  const size_t n_tasks = std::clamp<size_t>(n_rest / kOutputsPerTask, 1, kMostTasks);
  run_tasks(n_tasks, /*n_threads=*/0, [&](size_t task) {
    const size_t from = n_rest * task / n_tasks, until = n_rest * (task + 1) / n_tasks;
    filter(rest + 2 * from, out_.data() + n_first + from, until - from);
  });
  kept_.assign(rest + 2 * n_rest, samples.data() + samples.size());
  return out_;
}

}  // namespace vesper
#endif  // HWY_ONCE

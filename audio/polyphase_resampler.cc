#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "audio/polyphase_resampler.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "audio/polyphase_resampler.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vesper::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kLanes = PolyphaseResampler::kPartialSums, kGroup = PolyphaseResampler::kGroup;

// Adds up the partial sums of a group of outputs, [kGroup, kLanes], in the order of a binary tree.
void add_partial_sums(const float* HWY_RESTRICT partial, float* HWY_RESTRICT out) {
  static_assert(kGroup == 4 && kLanes == 16);
  const hn::CappedTag<float, 4> d;
  constexpr size_t kWidth = hn::MaxLanes(d);  // 1 without SIMD instructions
  HWY_ALIGN float quarters[kGroup * 4];
  for (size_t i = 0; i < kGroup; ++i) {
    for (size_t lane = 0; lane < 4; lane += kWidth) {
      const float* at = partial + i * kLanes + lane;
      const auto even = hn::Add(hn::Load(d, at), hn::Load(d, at + 8));
      const auto odd = hn::Add(hn::Load(d, at + 4), hn::Load(d, at + 12));
      hn::Store(hn::Add(even, odd), d, quarters + i * 4 + lane);
    }
  }
  for (size_t i = 0; i < kGroup; i += kWidth) {
    hn::Vec<decltype(d)> sums[4];
    hn::LoadInterleaved4(d, quarters + i * 4, sums[0], sums[1], sums[2], sums[3]);
    hn::StoreU(hn::Add(hn::Add(sums[0], sums[2]), hn::Add(sums[1], sums[3])), d, out + i);
  }
}

// The dot products of a group of filters, [n_window / kLanes, kGroup, kLanes], with N windows of
// the input, `input_step` apart.
template <size_t N>
void filter_windows(const float* HWY_RESTRICT filters, size_t n_window,
                    const float* HWY_RESTRICT input, size_t input_step, float* HWY_RESTRICT out,
                    size_t out_step) {
  const hn::CappedTag<float, kLanes> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kWidth = hn::MaxLanes(d);
  HWY_ALIGN float partial[N][kGroup][kLanes];
  for (size_t lane = 0; lane < kLanes; lane += kWidth) {
    V sums[N][kGroup];
    for (auto& of_window : sums) {
      for (V& sum : of_window) sum = hn::Zero(d);
    }
    for (size_t i = 0; i < n_window; i += kLanes) {
      V samples[N];
      for (size_t k = 0; k < N; ++k) samples[k] = hn::LoadU(d, input + k * input_step + i + lane);
      for (size_t f = 0; f < kGroup; ++f) {
        const V taps = hn::Load(d, filters + i * kGroup + f * kLanes + lane);
        for (size_t k = 0; k < N; ++k) {
          sums[k][f] = hn::Add(sums[k][f], hn::Mul(taps, samples[k]));
        }
      }
    }
    for (size_t k = 0; k < N; ++k) {
      for (size_t f = 0; f < kGroup; ++f) hn::Store(sums[k][f], d, partial[k][f] + lane);
    }
  }
  for (size_t k = 0; k < N; ++k) {
    add_partial_sums(partial[k][0], out + k * out_step);
  }
}

// The same for any number of windows.
void run_filters(const float* HWY_RESTRICT filters, size_t n_window,
                 const float* HWY_RESTRICT input, size_t input_step, float* HWY_RESTRICT out,
                 size_t out_step, size_t n_windows) {
  // As many accumulators as fit the registers: each load is used several times.
  constexpr size_t kWindows = HWY_MAX_BYTES >= 64 ? 4 : 3;
  size_t k = 0;
  for (; k + kWindows <= n_windows; k += kWindows) {
    filter_windows<kWindows>(filters, n_window, input + k * input_step, input_step,
                             out + k * out_step, out_step);
  }
  for (; k < n_windows; ++k) {
    filter_windows<1>(filters, n_window, input + k * input_step, input_step, out + k * out_step,
                      out_step);
  }
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  // GCC omits it. Without it the later SSE instructions of the thread, those of the log-mel too,
  // are slow on Intel CPUs.
  _mm256_zeroupper();
#endif
}

}  // namespace vesper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "audio/kaiser_filter.h"
#include "error/tasks.h"

namespace vesper {
HWY_EXPORT(run_filters);

namespace {

constexpr size_t kMaxTableValues = size_t{1} << 18;
constexpr double kPassband = 0.965, kStopband = 1.015;  // of the smaller Nyquist frequency
constexpr double kAttenuationDb = 101.0;                // with the half-band filters: 100
// Of a task of its own: several times the work of waking a thread.
constexpr uint64_t kProductsPerTask = uint64_t{1} << 22;
constexpr size_t kMostTasks = 8;
// Input of the groups that are computed together: 24 KiB, which stay in the L1 cache.
constexpr uint64_t kCachedSamples = 6144;
// Of one group of filters: a multiple of what run_filters takes at once.
constexpr uint64_t kWindowsAtOnce = 12;

// Whether halving the rate takes less time than the longer polyphase filters without it. From this
// rate on a half-band filter takes at most 22 products.
bool is_halved(int from_hz, int to_hz) { return from_hz % 2 == 0 && 2 * from_hz >= 5 * to_hz; }

int rate_after_halvings(int from_hz, int to_hz) {
  while (is_halved(from_hz, to_hz)) from_hz /= 2;
  return from_hz;
}

// Band edges in cycles per input sample.
struct Band {
  double pass, stop;
};

Band band_of(int from_hz, int to_hz) {
  const double nyquist = std::min(from_hz, to_hz) / 2.0 / from_hz;
  return {kPassband * nyquist, kStopband * nyquist};
}

size_t n_taps_of(const Band& band) {
  return static_cast<size_t>(kaiser_length(kAttenuationDb, band.stop - band.pass)) + 1;
}

}  // namespace

bool PolyphaseResampler::suits(int from_hz, int to_hz) {
  const int rate_hz = rate_after_halvings(from_hz, to_hz);
  const auto n_filters = static_cast<size_t>(to_hz / std::gcd(rate_hz, to_hz));
  return n_filters * n_taps_of(band_of(rate_hz, to_hz)) <= kMaxTableValues;
}

PolyphaseResampler::PolyphaseResampler(int from_hz, int to_hz)
    : from_hz_(static_cast<uint64_t>(from_hz)), to_hz_(static_cast<uint64_t>(to_hz)) {
  size_t n_before = 0;
  int rate_hz = from_hz;
  for (; is_halved(rate_hz, to_hz); rate_hz /= 2) {
    halvings_.emplace_back(band_of(rate_hz, to_hz).stop, n_before);
    n_before = halvings_.back().n_before();
  }
  up_ = static_cast<uint64_t>(to_hz / std::gcd(rate_hz, to_hz));
  down_ = static_cast<uint64_t>(rate_hz / std::gcd(rate_hz, to_hz));
  n_filter_groups_ = std::lcm(up_, uint64_t{kGroup}) / kGroup;

  // The filters of a group begin up to `n_shifts` samples after their window.
  const Band band = band_of(rate_hz, to_hz);
  const auto n_shifts = static_cast<size_t>((kGroup - 1) * down_ / up_ + 1);
  n_window_ = (n_taps_of(band) + n_shifts + kPartialSums - 1) / kPartialSums * kPartialSums;
  const size_t half_taps = (n_window_ - n_shifts) / 2;
  const double reach = static_cast<double>(half_taps);
  filters_.resize(n_filter_groups_ * n_window_ / kPartialSums);
  std::vector<double> filter(2 * half_taps);
  for (uint64_t output = 0; output < n_filter_groups_ * kGroup; ++output) {
    const double offset = static_cast<double>(output * down_ % up_) / static_cast<double>(up_);
    double sum = 0.0;
    for (size_t k = 0; k < filter.size(); ++k) {
      const double t = static_cast<double>(k) - (reach - 1.0) - offset;  // -reach to reach
      filter[k] = kaiser_tap(t, (band.pass + band.stop) / 2.0, reach, kAttenuationDb);
      sum += filter[k];
    }
    const uint64_t group = output / kGroup;
    const auto shift = static_cast<size_t>(output * down_ / up_ - window_of(group));
    Taps* taps = &filters_[static_cast<size_t>(group) * n_window_ / kPartialSums];
    // Normalizes each phase; otherwise the phases would modulate a constant.
    for (size_t k = 0; k < filter.size(); ++k) {
      const size_t i = shift + k;
      taps[i / kPartialSums].of_output[output % kGroup][i % kPartialSums] =
          static_cast<float>(filter[k] / sum);
    }
  }
  pending_.assign(half_taps - 1 - n_before, 0.0f);
}

// Where the window of a group begins in the input.
uint64_t PolyphaseResampler::window_of(uint64_t group) const {
  return group * kGroup * down_ / up_;
}

const PolyphaseResampler::Taps* PolyphaseResampler::filters_of(uint64_t group) const {
  return &filters_[static_cast<size_t>(group % n_filter_groups_) * n_window_ / kPartialSums];
}

void PolyphaseResampler::push(const float* samples, size_t n, std::vector<float>& out) {
  n_in_ += n;
  halve({samples, n});
  produce(out);
}

void PolyphaseResampler::finish(std::vector<float>& out) {
  const uint64_t n_wanted = (n_in_ * to_hz_ + from_hz_ / 2) / from_hz_;
  constexpr std::array<float, 1024> kSilence = {};
  while (n_groups_ * kGroup < n_wanted) {
    halve(kSilence);
    produce(out);
  }
  out.resize(out.size() - static_cast<size_t>(n_groups_ * kGroup - n_wanted));
}

// Appends to the input of the polyphase filters.
void PolyphaseResampler::halve(std::span<const float> samples) {
  for (HalfBandDecimator& halving : halvings_) samples = halving.push(samples);
  pending_.insert(pending_.end(), samples.begin(), samples.end());
}

// Appends the outputs of all groups whose window is in pending_.
void PolyphaseResampler::produce(std::vector<float>& out) {
  const uint64_t n_pending = first_pending_ + pending_.size();
  if (n_pending < n_window_) return;
  // Groups whose window is there: window_of(group) <= n_pending - n_window_.
  const uint64_t end = ((n_pending - n_window_ + 1) * up_ - 1) / (kGroup * down_) + 1;
  const uint64_t n_new = end - n_groups_;
  const size_t before = out.size();
  out.resize(before + static_cast<size_t>(n_new * kGroup));
  // Tasks begin at multiples of what the filters are applied to at once.
  const uint64_t unit = kWindowsAtOnce * n_filter_groups_, n_units = (n_new + unit - 1) / unit;
  const uint64_t n_tasks =
      std::clamp<uint64_t>(n_new * kGroup * n_window_ / kProductsPerTask, 1, kMostTasks);
  run_tasks(static_cast<size_t>(n_tasks), /*n_threads=*/0, [&](size_t task) {
    const uint64_t from = n_units * task / n_tasks * unit;
    const uint64_t until = std::min(n_units * (task + 1) / n_tasks * unit, n_new);
    run_groups(n_groups_ + from, n_groups_ + until, out.data() + before + from * kGroup);
  });
  n_groups_ = end;
  const uint64_t next = window_of(n_groups_);
  pending_.erase(pending_.begin(),
                 pending_.begin() + static_cast<std::ptrdiff_t>(next - first_pending_));
  first_pending_ = next;
}

// Writes the outputs of groups `first` to `end` - 1.
void PolyphaseResampler::run_groups(uint64_t first, uint64_t end, float* out) const {
  // Groups this far apart have the same filters.
  const uint64_t n_apart = n_filter_groups_;
  const uint64_t input_step = window_of(n_apart);
  const uint64_t n_windows = std::max<uint64_t>(kCachedSamples / input_step / kWindowsAtOnce, 1);
  const uint64_t n_together = n_windows * kWindowsAtOnce * n_apart;
  for (uint64_t begin = first; begin < end; begin += n_together) {
    const uint64_t until = std::min(begin + n_together, end);
    for (uint64_t group = begin; group < std::min(begin + n_apart, until); ++group) {
      HWY_DYNAMIC_DISPATCH(run_filters)
      (filters_of(group)->of_output[0], n_window_,
       &pending_[static_cast<size_t>(window_of(group) - first_pending_)],
       static_cast<size_t>(input_step), out + (group - first) * kGroup,
       static_cast<size_t>(n_apart * kGroup),
       static_cast<size_t>((until - group - 1) / n_apart + 1));
    }
  }
}

}  // namespace vesper
#endif  // HWY_ONCE

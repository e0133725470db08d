#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "audio/polyphase_resampler.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "audio/polyphase_resampler.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vesper::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kLanes = PolyphaseResampler::kPartialSums;

// The dot products of a filter [n_taps] with N inputs, `input_step` apart.
template <size_t N>
void filter_group(const float* HWY_RESTRICT filter, size_t n_taps, const float* HWY_RESTRICT input,
                  size_t input_step, float* HWY_RESTRICT out, size_t out_step) {
  const hn::CappedTag<float, kLanes> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kWidth = hn::MaxLanes(d), kVectors = kLanes / kWidth;
  V sums[N][kVectors];
  for (auto& of_input : sums) {
    for (V& sum : of_input) sum = hn::Zero(d);
  }
  for (size_t i = 0; i < n_taps; i += kLanes) {
    for (size_t v = 0; v < kVectors; ++v) {
      const V taps = hn::LoadU(d, filter + i + v * kWidth);
      for (size_t k = 0; k < N; ++k) {
        const V samples = hn::LoadU(d, input + k * input_step + i + v * kWidth);
        sums[k][v] = hn::Add(sums[k][v], hn::Mul(taps, samples));
      }
    }
  }
  for (size_t k = 0; k < N; ++k) {
    float lanes[kLanes];
    for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[k][v], d, lanes + v * kWidth);
    for (size_t i = 0; i < 8; ++i) lanes[i] += lanes[i + 8];
    for (size_t i = 0; i < 4; ++i) lanes[i] += lanes[i + 4];
    out[k * out_step] = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
  }
}

// out[k * out_step] is the dot product of a filter [n_taps] with the input at k * input_step.
void run_filter(const float* HWY_RESTRICT filter, size_t n_taps, const float* HWY_RESTRICT input,
                size_t input_step, float* HWY_RESTRICT out, size_t out_step, size_t n) {
  // As many accumulators as hide the latency of an addition and fit the registers.
  constexpr size_t kGroup = HWY_MAX_BYTES >= 32 ? 4 : 2;
  size_t k = 0;
  for (; k + kGroup <= n; k += kGroup) {
    filter_group<kGroup>(filter, n_taps, input + k * input_step, input_step, out + k * out_step,
                         out_step);
  }
  for (; k < n; ++k) {
    filter_group<1>(filter, n_taps, input + k * input_step, input_step, out + k * out_step,
                    out_step);
  }
}

}  // namespace vesper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <numeric>

#include "audio/kaiser_window.h"
#include "error/tasks.h"

namespace vesper {
HWY_EXPORT(run_filter);

namespace {

constexpr size_t kMaxTableValues = size_t{1} << 18;
constexpr double kPassband = 0.965, kStopband = 1.015;  // of the smaller Nyquist frequency
constexpr double kAttenuationDb = 100.0;
// Of a decimation by two. Its errors add to those of the filter after it.
constexpr double kHalfBandDb = 120.0;
// A rate is halved while the result is above the wanted rate by this factor: the transition of a
// half-band filter is then wide, and the filter after it has half of the taps for an output.
constexpr double kLeastRatio = 1.25;
// Of a task of its own: several times the work of waking a thread.
constexpr uint64_t kProductsPerTask = uint64_t{1} << 20;
constexpr size_t kMostTasks = 32;

// Band edges in cycles per input sample.
struct Band {
  double pass, stop;
};

Band band_of(int from_hz, int to_hz) {
  const double nyquist = std::min(from_hz, to_hz) / 2.0 / from_hz;
  return {kPassband * nyquist, kStopband * nyquist};
}

// Taps of the filter to each side.
size_t half_taps_of(const Band& band) {
  const double taps = kaiser_length(kAttenuationDb, band.stop - band.pass);
  constexpr size_t kMultiple = PolyphaseResampler::kPartialSums;
  return (static_cast<size_t>(taps) / kMultiple + 1) * kMultiple / 2;
}

}  // namespace

int PolyphaseResampler::halved(int from_hz, int to_hz) {
  while (from_hz % 2 == 0 && from_hz / 2 > kLeastRatio * to_hz) from_hz /= 2;
  return from_hz;
}

bool PolyphaseResampler::suits(int from_hz, int to_hz) {
  from_hz = halved(from_hz, to_hz);
  const auto n_filters = static_cast<size_t>(to_hz / std::gcd(from_hz, to_hz));
  return n_filters * 2 * half_taps_of(band_of(from_hz, to_hz)) <= kMaxTableValues;
}

PolyphaseResampler::PolyphaseResampler(int from_hz, int to_hz)
    : from_hz_(static_cast<uint64_t>(from_hz)),
      to_hz_(static_cast<uint64_t>(to_hz)),
      up_(static_cast<uint64_t>(to_hz / std::gcd(halved(from_hz, to_hz), to_hz))),
      down_(
          static_cast<uint64_t>(halved(from_hz, to_hz) / std::gcd(halved(from_hz, to_hz), to_hz))),
      half_taps_(half_taps_of(band_of(halved(from_hz, to_hz), to_hz))),
      n_taps_(2 * half_taps_),
      filters_(up_ * n_taps_),
      pending_(half_taps_ - 1, 0.0f) {
  for (int rate = from_hz; rate > halved(from_hz, to_hz); rate /= 2) {
    halvings_.emplace_back(band_of(rate, to_hz).stop, kHalfBandDb);
  }
  halves_.resize(halvings_.size());
  const Band band = band_of(halved(from_hz, to_hz), to_hz);
  const double cutoff = band.pass + band.stop;  // twice the middle of the transition band
  const double reach = static_cast<double>(half_taps_);
  std::vector<double> filter(n_taps_);
  for (size_t phase = 0; phase < up_; ++phase) {
    const double offset = static_cast<double>(phase) / static_cast<double>(up_);
    double sum = 0.0;
    for (size_t k = 0; k < n_taps_; ++k) {
      const double t = static_cast<double>(k) - (reach - 1.0) - offset;  // -reach to reach
      filter[k] = sinc(cutoff * t) * kaiser_window(t / reach, kAttenuationDb);
      sum += filter[k];
    }
    // Normalizes each phase; otherwise the phases would modulate a constant.
    for (size_t k = 0; k < n_taps_; ++k) {
      filters_[phase * n_taps_ + k] = static_cast<float>(filter[k] / sum);
    }
  }
}

void PolyphaseResampler::push(const float* samples, size_t n, std::vector<float>& out) {
  n_source_ += n;
  halve(samples, n, 0);
  // Output j is at input j * M / L and needs half_taps_ inputs after it.
  if (n_in_ <= half_taps_) return;
  produce(((n_in_ - half_taps_) * up_ + down_ - 1) / down_, out);
}

// Takes the input of a halving, or of the filter after the last one.
void PolyphaseResampler::halve(const float* samples, size_t n, size_t stage) {
  if (stage == halvings_.size()) {
    pending_.insert(pending_.end(), samples, samples + n);
    n_in_ += n;
    return;
  }
  std::vector<float>& half = halves_[stage];
  half.clear();
  halvings_[stage].push(samples, n, half);
  halve(half.data(), half.size(), stage + 1);
}

void PolyphaseResampler::finish(std::vector<float>& out) {
  for (size_t stage = 0; stage < halvings_.size(); ++stage) {
    std::vector<float>& half = halves_[stage];
    half.clear();
    halvings_[stage].finish(half);
    halve(half.data(), half.size(), stage + 1);
  }
  pending_.insert(pending_.end(), half_taps_ + 1, 0.0f);
  produce((n_source_ * to_hz_ + from_hz_ / 2) / from_hz_, out);
}

// Appends outputs up to `n_wanted` since the beginning.
void PolyphaseResampler::produce(uint64_t n_wanted, std::vector<float>& out) {
  if (n_wanted > n_out_) {
    const size_t before = out.size();
    out.resize(before + static_cast<size_t>(n_wanted - n_out_));
    // Outputs L apart have the same filter, and their inputs are M apart.
    const auto run_phase = [&](uint64_t first) {
      const uint64_t position = first * down_;
      HWY_DYNAMIC_DISPATCH(run_filter)
      (&filters_[static_cast<size_t>(position % up_) * n_taps_], n_taps_,
       &pending_[static_cast<size_t>(position / up_ - first_pending_)], static_cast<size_t>(down_),
       &out[before + static_cast<size_t>(first - n_out_)], static_cast<size_t>(up_),
       static_cast<size_t>((n_wanted - first - 1) / up_ + 1));
    };
    const uint64_t n_new = n_wanted - n_out_, n_phases = std::min(up_, n_new);
    const size_t n_tasks = std::clamp<size_t>(n_new * n_taps_ / kProductsPerTask, 1, kMostTasks);
    const uint64_t per_task = (n_phases + n_tasks - 1) / n_tasks;
    run_tasks(static_cast<size_t>((n_phases + per_task - 1) / per_task), /*n_threads=*/0,
              [&](size_t task) {
                const uint64_t end = std::min((task + 1) * per_task, n_phases);
                for (uint64_t phase = task * per_task; phase < end; ++phase) {
                  run_phase(n_out_ + phase);
                }
              });
    n_out_ = n_wanted;
  }
  const uint64_t next = std::min(n_out_ * down_ / up_, n_in_);
  if (next <= first_pending_) return;
  pending_.erase(pending_.begin(),
                 pending_.begin() + static_cast<std::ptrdiff_t>(next - first_pending_));
  first_pending_ = next;
}

}  // namespace vesper
#endif  // HWY_ONCE

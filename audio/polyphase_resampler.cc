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
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    out[k * out_step] = sum;
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
#include <cmath>
#include <numbers>
#include <numeric>

#include "error/tasks.h"

namespace vesper {
HWY_EXPORT(run_filter);

namespace {

constexpr size_t kMaxTableValues = size_t{1} << 18;
constexpr double kPassband = 0.965, kStopband = 1.015;  // of the smaller Nyquist frequency
constexpr double kAttenuationDb = 100.0;
// Of a task of its own: several times the work of starting a thread.
constexpr uint64_t kProductsPerTask = uint64_t{1} << 21;
constexpr size_t kMostTasks = 8;

// Band edges in cycles per input sample.
struct Band {
  double pass, stop;
};

Band band_of(int from_hz, int to_hz) {
  const double nyquist = std::min(from_hz, to_hz) / 2.0 / from_hz;
  return {kPassband * nyquist, kStopband * nyquist};
}

// Kaiser's estimate of the filter length for the transition band, in taps to each side.
size_t half_taps_of(const Band& band) {
  const double taps =
      (kAttenuationDb - 8.0) / (2.285 * 2.0 * std::numbers::pi * (band.stop - band.pass));
  constexpr size_t kMultiple = PolyphaseResampler::kPartialSums;
  return (static_cast<size_t>(taps) / kMultiple + 1) * kMultiple / 2;
}

double sinc(double x) {
  return x == 0.0 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

// Modified Bessel function of order 0 by its power series. x is at most 11 here, for which 40 terms
// exceed double precision. (std::cyl_bessel_i takes 50 times as long.)
double bessel_i0(double x) {
  const double quarter_square = x * x / 4.0;
  double term = 1.0, sum = 1.0;
  for (int k = 1; k < 40 && term > 1e-17 * sum; ++k) {
    term *= quarter_square / (k * k);
    sum += term;
  }
  return sum;
}

}  // namespace

bool PolyphaseResampler::suits(int from_hz, int to_hz) {
  const auto n_filters = static_cast<size_t>(to_hz / std::gcd(from_hz, to_hz));
  return n_filters * 2 * half_taps_of(band_of(from_hz, to_hz)) <= kMaxTableValues;
}

PolyphaseResampler::PolyphaseResampler(int from_hz, int to_hz)
    : up_(static_cast<uint64_t>(to_hz / std::gcd(from_hz, to_hz))),
      down_(static_cast<uint64_t>(from_hz / std::gcd(from_hz, to_hz))),
      half_taps_(half_taps_of(band_of(from_hz, to_hz))),
      n_taps_(2 * half_taps_),
      filters_(up_ * n_taps_),
      pending_(half_taps_ - 1, 0.0f) {
  const Band band = band_of(from_hz, to_hz);
  const double cutoff = band.pass + band.stop;  // twice the middle of the transition band
  const double beta = 0.1102 * (kAttenuationDb - 8.7);
  const double reach = static_cast<double>(half_taps_);
  std::vector<double> filter(n_taps_);
  for (size_t phase = 0; phase < up_; ++phase) {
    const double offset = static_cast<double>(phase) / static_cast<double>(up_);
    double sum = 0.0;
    for (size_t k = 0; k < n_taps_; ++k) {
      const double t = static_cast<double>(k) - (reach - 1.0) - offset;  // -reach to reach
      const double edge = t / reach;
      const double window = bessel_i0(beta * std::sqrt(std::max(0.0, 1.0 - edge * edge)));
      filter[k] = sinc(cutoff * t) * window;
      sum += filter[k];
    }
    // Normalizes each phase; otherwise the phases would modulate a constant.
    for (size_t k = 0; k < n_taps_; ++k) {
      filters_[phase * n_taps_ + k] = static_cast<float>(filter[k] / sum);
    }
  }
}

void PolyphaseResampler::push(const float* samples, size_t n, std::vector<float>& out) {
  pending_.insert(pending_.end(), samples, samples + n);
  n_in_ += n;
  // Output j is at input j * M / L and needs half_taps_ inputs after it.
  if (n_in_ <= half_taps_) return;
  produce(((n_in_ - half_taps_) * up_ + down_ - 1) / down_, out);
}

void PolyphaseResampler::finish(std::vector<float>& out) {
  pending_.insert(pending_.end(), half_taps_ + 1, 0.0f);
  produce((n_in_ * up_ + down_ / 2) / down_, out);
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

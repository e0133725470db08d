#include "audio/polyphase.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace vesper {
namespace {

constexpr size_t kLanes = 16;  // partial sums of a dot product, so that it becomes SIMD
constexpr size_t kMaxTableValues = size_t{1} << 18;
constexpr double kPassband = 0.965, kStopband = 1.015;  // of the smaller Nyquist frequency
constexpr double kAttenuationDb = 100.0;

// Band edges in cycles per input sample.
struct Band {
  double pass, stop;
};

Band band_of(int from_hz, int to_hz) {
  const double nyquist = std::min(from_hz, to_hz) / 2.0 / from_hz;
  return {kPassband * nyquist, kStopband * nyquist};
}

// Kaiser's estimate of the length that the transition band needs, in taps to either side.
size_t half_taps_of(const Band& band) {
  const double taps =
      (kAttenuationDb - 8.0) / (2.285 * 2.0 * std::numbers::pi * (band.stop - band.pass));
  return (static_cast<size_t>(taps) / kLanes + 1) * kLanes / 2;
}

double sinc(double x) {
  return x == 0.0 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

// The modified Bessel function of order 0 by its power series; x here is at most 11, for which 40
// terms are more than double precision can hold. (std::cyl_bessel_i takes 50 times as long.)
double bessel_i0(double x) {
  const double quarter_square = x * x / 4.0;
  double term = 1.0, sum = 1.0;
  for (int k = 1; k < 40 && term > 1e-17 * sum; ++k) {
    term *= quarter_square / (k * k);
    sum += term;
  }
  return sum;
}

float dot(const float* a, const float* b, size_t n) {
  float sums[kLanes] = {};
  for (size_t i = 0; i < n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  return std::accumulate(sums, sums + kLanes, 0.0f);
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
    // Each phase passes a constant unchanged, or the phases would modulate it.
    for (size_t k = 0; k < n_taps_; ++k) {
      filters_[phase * n_taps_ + k] = static_cast<float>(filter[k] / sum);
    }
  }
}

void PolyphaseResampler::push(const float* samples, size_t n, std::vector<float>& out) {
  pending_.insert(pending_.end(), samples, samples + n);
  n_in_ += n;
  // Output j stands at input j * M / L and needs half_taps_ inputs after that.
  if (n_in_ <= half_taps_) return;
  produce(((n_in_ - half_taps_) * up_ + down_ - 1) / down_, out);
}

void PolyphaseResampler::finish(std::vector<float>& out) {
  pending_.insert(pending_.end(), half_taps_ + 1, 0.0f);
  produce((n_in_ * up_ + down_ / 2) / down_, out);
}

// Appends outputs until `n_wanted` have been made since the beginning.
void PolyphaseResampler::produce(uint64_t n_wanted, std::vector<float>& out) {
  for (; n_out_ < n_wanted; ++n_out_) {
    const uint64_t position = n_out_ * down_;
    const uint64_t at = position / up_ - first_pending_;
    out.push_back(
        dot(&pending_[at], &filters_[static_cast<size_t>(position % up_) * n_taps_], n_taps_));
  }
  const uint64_t next = std::min(n_out_ * down_ / up_, n_in_);
  if (next <= first_pending_) return;
  pending_.erase(pending_.begin(),
                 pending_.begin() + static_cast<std::ptrdiff_t>(next - first_pending_));
  first_pending_ = next;
}

}  // namespace vesper

#include "audio/resample.h"

#include <samplerate.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <numbers>
#include <numeric>
#include <string>

#include "audio/reader.h"
#include "error/error.h"

namespace vesper {
namespace {

constexpr size_t kLanes = 16;  // partial sums of a dot product, for SIMD
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

// Kaiser's estimate of the filter length for the transition band, in taps to each side.
size_t half_taps_of(const Band& band) {
  const double taps =
      (kAttenuationDb - 8.0) / (2.285 * 2.0 * std::numbers::pi * (band.stop - band.pass));
  return (static_cast<size_t>(taps) / kLanes + 1) * kLanes / 2;
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

float dot(const float* a, const float* b, size_t n) {
  float sums[kLanes] = {};
  for (size_t i = 0; i < n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  return std::accumulate(sums, sums + kLanes, 0.0f);
}

// samples per block: libsamplerate counts in long, but uses int internally
constexpr size_t kBlock = 8192;

Error broken(int code) {
  return Error(ErrorKind::kInternal, std::string("libsamplerate failed: ") + src_strerror(code));
}

}  // namespace

// A polyphase FIR resampler for rates in a simple ratio to 16 kHz. libsamplerate's best converter
// interpolates its filter for every tap of every sample: at 44.1 kHz this takes longer than a small
// model takes to transcribe. If the ratio is L / M in lowest terms, only L different filters occur.
// They are tabulated here, so an output sample is one dot product.
class PolyphaseResampler {
 public:
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
  void produce(uint64_t n_wanted, std::vector<float>& out);

  uint64_t up_, down_;          // L and M
  size_t half_taps_;            // input samples of a filter to each side
  size_t n_taps_;               // per filter, 2 * half_taps_, a multiple of kLanes
  std::vector<float> filters_;  // [L, n_taps]
  std::vector<float> pending_;  // input from sample first_pending_ - half_taps_ + 1 on
  uint64_t first_pending_ = 0;
  uint64_t n_in_ = 0, n_out_ = 0;
};

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

void Resampler::Close::operator()(void* converter) const {
  src_delete(static_cast<SRC_STATE*>(converter));
}

Resampler::Resampler(int from_hz) : from_hz_(from_hz) {
  if (from_hz < AudioReader::kMinSampleRateHz || from_hz > AudioReader::kMaxSampleRateHz) {
    throw Error(ErrorKind::kInternal, "resampler: expected a rate of 1000 to 768000 Hz, found " +
                                          std::to_string(from_hz));
  }
  if (from_hz == kSampleRateHz) return;
  if (PolyphaseResampler::suits(from_hz, kSampleRateHz)) {
    polyphase_ = std::make_unique<PolyphaseResampler>(from_hz, kSampleRateHz);
    return;
  }
  int code = 0;
  converter_.reset(src_new(SRC_SINC_BEST_QUALITY, 1, &code));
  // The only error with valid arguments (SRC_ERR_MALLOC_FAILED is not in its header).
  if (!converter_) throw std::bad_alloc();
}

Resampler::~Resampler() = default;

void Resampler::push(const float* samples, size_t n, std::vector<float>& out) {
  if (polyphase_) return polyphase_->push(samples, n, out);
  if (!converter_) {
    out.insert(out.end(), samples, samples + n);
    return;
  }
  n_in_ += n;
  for (size_t done = 0; done < n;) {
    const size_t block = std::min(kBlock, n - done);
    convert(samples + done, block, false, out);
    done += block;
  }
}

void Resampler::finish(std::vector<float>& out) {
  if (polyphase_) return polyphase_->finish(out);
  if (!converter_) return;
  convert(nullptr, 0, true, out);
  // The converter counts in floating point and may end one sample early or late.
  const uint64_t rate = static_cast<uint64_t>(from_hz_);
  const uint64_t expected = (n_in_ * kSampleRateHz + rate / 2) / rate;
  if (n_out_ > expected) {
    out.resize(out.size() - std::min<uint64_t>(out.size(), n_out_ - expected));
  } else {
    out.insert(out.end(), expected - n_out_, 0.0f);
  }
  n_out_ = expected;
}

void Resampler::convert(const float* samples, size_t n, bool is_last, std::vector<float>& out) {
  const float none = 0.0f;
  SRC_DATA data = {};
  data.data_in = n > 0 ? samples : &none;
  data.input_frames = static_cast<long>(n);
  data.end_of_input = is_last ? 1 : 0;
  data.src_ratio = static_cast<double>(kSampleRateHz) / from_hz_;
  while (true) {
    const size_t before = out.size();
    out.resize(before + kBlock);
    data.data_out = out.data() + before;
    data.output_frames = static_cast<long>(kBlock);
    const int code = src_process(static_cast<SRC_STATE*>(converter_.get()), &data);
    if (code != 0) throw broken(code);
    out.resize(before + static_cast<size_t>(data.output_frames_gen));
    n_out_ += static_cast<uint64_t>(data.output_frames_gen);
    data.data_in += data.input_frames_used;
    data.input_frames -= data.input_frames_used;
    if (data.output_frames_gen == 0 && data.input_frames == 0) return;
  }
}

}  // namespace vesper

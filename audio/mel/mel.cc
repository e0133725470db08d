#include "audio/mel/mel.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "audio/mel/mel_rows.h"
#include "audio/mel/power_spectrum.h"
#include "error/error.h"
#include "error/tasks.h"

namespace vesper {
namespace {

constexpr size_t kHop = kMelHop;
constexpr size_t kReflected = kDftSize / 2;
constexpr size_t kBatch = kFramesPerBatch;  // frames computed at once: the innermost index
constexpr float kFloor = 1e-10f;
constexpr float kLogFloor = -10.0f;
constexpr float kDynamicRange = 8.0f;  // decades kept below the maximum
// Frames of one task: 0.1 ms of work, several times the wake-up of a thread.
constexpr size_t kFramesPerTask = 4 * kBatch;

}  // namespace

struct MelSpectrogram::State {
  // Consecutive frames of the content that are consecutive rows.
  struct FrameRange {
    size_t frame;  // first frame
    size_t row;    // its row
  };

  State(int mels, std::span<const float> given)
      : n_mels(static_cast<size_t>(std::max(mels, 0))),
        filters(sparse_filters(
            mels, given.empty() ? std::span<const float>(slaney_mel_filters(mels)) : given)),
        rows(n_mels) {}

  // Calls f(row, n) for the rows of n frames, as many consecutive ones at once as possible.
  template <class F>
  void for_each_range(size_t first, size_t n, const F& f) const {
    auto range =
        std::upper_bound(ranges.begin(), ranges.end(), first,
                         [](size_t frame, const FrameRange& s) { return frame < s.frame; });
    for (--range; n > 0; ++range) {
      const auto next = range + 1;
      const size_t part = next == ranges.end() ? n : std::min(n, next->frame - first);
      f(range->row + (first - range->frame), part);
      first += part;
      n -= part;
    }
  }

  // Writes the unclamped rows of n frames to `out`, [n, n_mels].
  void read(size_t first, size_t n, float* out) const {
    for_each_range(first, n, [&](size_t row, size_t n_rows_there) {
      rows.read(row, n_rows_there, out);
      out += n_rows_there * n_mels;
    });
  }

  // When 201 samples are available, the 200 after the first are put before it in reverse.
  void reflect_beginning() {
    std::vector<float> reflected(pending.rend() - (kReflected + 1), pending.rend() - 1);
    pending.insert(pending.begin(), reflected.begin(), reflected.end());
    is_reflected = true;
  }

  void take(const float* samples, size_t n) {
    pending.insert(pending.end(), samples, samples + n);
    if (!is_reflected && pending.size() > kReflected) reflect_beginning();
    if (!is_reflected || pending.size() < kBatchSamples) return;
    const size_t n_frames = ((pending.size() - kBatchSamples) / (kBatch * kHop) + 1) * kBatch;
    compute_rows(n_frames);
    pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(n_frames * kHop));
  }

  // Appends the rows of the first n frames of `pending`, which has the samples of whole batches.
  void compute_rows(size_t n) {
    const size_t n_tasks = (n + kFramesPerTask - 1) / kFramesPerTask;
    block.resize(n * n_mels);
    const size_t first_row = row_maxima.size();
    row_maxima.resize(first_row + n, kLogFloor);
    run_tasks(n_tasks, /*n_threads=*/0, [&](size_t task) {
      const size_t end = std::min(n, (task + 1) * kFramesPerTask);
      for (size_t frame = task * kFramesPerTask; frame < end; frame += kBatch) {
        compute_batch(&pending[frame * kHop], std::min(kBatch, end - frame), &block[frame * n_mels],
                      &row_maxima[first_row + frame]);
      }
    });
    maximum = std::max(maximum, greatest(first_row, n));
    rows.append(block.data(), n);
    n_rows += n;
  }

  // The maximum of n rows.
  float greatest(size_t first_row, size_t n) const {
    const auto begin = row_maxima.begin() + static_cast<std::ptrdiff_t>(first_row);
    return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(n), kLogFloor,
                           [](float a, float b) { return std::max(a, b); });
  }

  // Writes the rows of the first n of the kBatch frames at `samples`, [kBatchSamples], to `out`,
  // [n, n_mels], and raises their maxima, [n].
  void compute_batch(const float* samples, size_t n, float* out, float* maxima) const {
    float power[kSpectrumBins * kBatch];  // [201, kBatch]
    spectrum.compute(samples, power);
    for (size_t m = 0; m < n_mels; ++m) {
      const auto& band = filters.bands[m];
      float energy[kBatch] = {};
      for (size_t k = 0; k < band.n_bins; ++k) {
        const float weight = filters.weights[band.first_weight + k];
        const float* bin = &power[(band.first_bin + k) * kBatch];
        for (size_t b = 0; b < kBatch; ++b) energy[b] += weight * bin[b];
      }
      for (size_t b = 0; b < n; ++b) {
        const float value = std::log10(std::max(energy[b], kFloor));
        out[b * n_mels + m] = value;
        maxima[b] = std::max(maxima[b], value);
      }
    }
  }

  size_t n_mels;
  SparseFilters filters;
  PowerSpectrum spectrum;
  std::vector<float> block;  // rows that are computed together, [n, n_mels]

  std::vector<float> pending;  // samples from the start of the next frame on
  bool is_reflected = false;
  bool is_finished = false;
  uint64_t n_samples = 0;

  MelRows rows;                               // all computed rows
  std::vector<float> row_maxima;              // of each of them
  std::vector<FrameRange> ranges = {{0, 0}};  // the kept ones, in order
  size_t n_rows = 0;          // kept rows: of the content and, at the end, up to three after it
  size_t content_frames = 0;  // after finish()
  float maximum = kLogFloor;
};

MelSpectrogram::MelSpectrogram(int n_mels, std::span<const float> filters)
    : state_(std::make_unique<State>(n_mels, filters)) {}
MelSpectrogram::MelSpectrogram(MelSpectrogram&&) noexcept = default;
MelSpectrogram& MelSpectrogram::operator=(MelSpectrogram&&) noexcept = default;
MelSpectrogram::~MelSpectrogram() = default;

void MelSpectrogram::push(const float* samples, size_t n) {
  State& s = *state_;
  if (s.is_finished) throw Error(ErrorKind::kInternal, "mel: samples pushed after the end");
  if (n > kMaxFrames * kHop - s.n_samples) {
    throw Error(ErrorKind::kInput, "the recording is longer than 24 hours: cut it into parts");
  }
  s.n_samples += n;
  // In blocks, so that a large push is not copied as a whole.
  constexpr size_t kBlock = size_t{1} << 18;
  for (size_t done = 0; done < n; done += kBlock) {
    s.take(samples + done, std::min(kBlock, n - done));
  }
}

void MelSpectrogram::finish() {
  State& s = *state_;
  if (s.is_finished) return;
  s.is_finished = true;
  s.content_frames = s.n_samples / kHop;
  // Frame t begins at sample 160 t - 200. From 160 t >= n + 200 on it is silent; its row is all -10
  // and is not stored.
  if (s.n_samples == 0) return;
  const size_t n_rows = (s.n_samples + kReflected + kHop - 1) / kHop;
  if (!s.is_reflected) {
    s.pending.resize(std::max(s.pending.size(), kReflected + 1));
    s.reflect_beginning();
  }
  const size_t n_left = n_rows - s.n_rows, n_batches = (n_left + kBatch - 1) / kBatch;
  s.pending.resize(std::max(s.pending.size(), n_batches * kBatch * kHop + kBatchSamples));
  s.compute_rows(n_left);
  s.pending = {};
}

void MelSpectrogram::keep(std::span<const std::pair<size_t, size_t>> ranges) {
  State& s = *state_;
  std::vector<State::FrameRange> kept;
  size_t n_kept = 0, last_end = 0;
  float maximum = kLogFloor;
  for (const auto& [begin, end] : ranges) {
    if (!s.is_finished || begin < last_end || end < begin || end > s.content_frames) {
      throw Error(ErrorKind::kInternal, "mel: frames " + std::to_string(begin) + " to " +
                                            std::to_string(end) + " cannot be kept");
    }
    last_end = end;
    s.for_each_range(begin, end - begin, [&](size_t row, size_t n) {
      kept.push_back({n_kept, row});
      n_kept += n;
      maximum = std::max(maximum, s.greatest(row, n));
    });
  }
  if (kept.empty()) kept.push_back({0, 0});
  s.ranges = std::move(kept);
  s.n_rows = s.content_frames = n_kept;
  s.maximum = maximum;
}

int MelSpectrogram::n_mels() const { return static_cast<int>(state_->n_mels); }

size_t MelSpectrogram::content_frames() const {
  return state_->is_finished ? state_->content_frames : state_->n_rows;
}

float MelSpectrogram::maximum() const { return state_->maximum; }

void MelSpectrogram::log_mel(size_t first_frame, size_t n, float* out) const {
  state_->read(first_frame, n, out);
}

void MelSpectrogram::window(const MelFrames& window, float* out) const {
  const State& s = *state_;
  // A few rows after the content still include its end.
  const bool silence = window.beyond == MelFrames::Beyond::kSilence;
  const size_t n_there = std::min(silence ? s.n_rows : content_frames(), window.end_frame);
  const size_t n_rows = std::min(window.n_frames, n_there - std::min(n_there, window.first_frame));

  float* const end = out + n_rows * s.n_mels;
  if (n_rows > 0) s.read(window.first_frame, n_rows, out);
  float maximum = s.maximum;
  if (window.maximum == MelFrames::Maximum::kWindow) {
    maximum = std::accumulate(out, end, kLogFloor, [](float a, float b) { return std::max(a, b); });
  }
  const float lowest = std::max(maximum, window.least_maximum) - kDynamicRange;
  const auto scale = [lowest](float x) { return (std::max(x, lowest) + 4.0f) / 4.0f; };
  std::transform(out, end, out, scale);
  std::fill(end, out + window.n_frames * s.n_mels, silence ? scale(kLogFloor) : 0.0f);
}

}  // namespace vesper

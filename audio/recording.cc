#include "audio/recording.h"

#include <algorithm>

namespace vesper {
namespace {

constexpr size_t kRecordingBlockFrames = 16384;

}  // namespace

RecordingReader::RecordingReader(AudioReader reader)
    : reader_(std::move(reader)),
      resampler_(reader_.sample_rate_hz()),
      block_(kRecordingBlockFrames) {}

size_t RecordingReader::read(float* samples, size_t n) {
  size_t done = 0;
  while (done < n) {
    if (n_taken_ == samples_.size()) fill();
    if (samples_.empty()) break;
    const size_t part = std::min(n - done, samples_.size() - n_taken_);
    std::copy_n(samples_.data() + n_taken_, part, samples + done);
    n_taken_ += part;
    done += part;
  }
  return done;
}

// Replaces samples_, all handed out, by the next ones; leaves it empty at the end.
void RecordingReader::fill() {
  samples_.clear();
  n_taken_ = 0;
  while (samples_.empty() && !has_ended_) {
    const size_t got = reader_.read(block_.data(), block_.size());
    n_frames_read_ += got;
    resampler_.push(block_.data(), got, samples_);
    if (got < block_.size()) {
      resampler_.finish(samples_);
      has_ended_ = true;
    }
  }
}

void RecordingReader::read_to_end(const TakeBlock& take) {
  std::vector<float> block(kRecordingBlockFrames);
  for (size_t got = block.size(); got == block.size();) {
    got = read(block.data(), block.size());
    take(block.data(), got);
  }
}

double RecordingReader::progress() const {
  const auto frames = reader_.frames_if_known();
  if (!frames || *frames == 0) return 0.0;
  return std::min(1.0, static_cast<double>(n_frames_read_) / static_cast<double>(*frames));
}

std::vector<float> read_recording(const std::string& path, ReaderOptions options) {
  return read_recording(AudioReader(path, options));
}

std::vector<float> read_recording(AudioReader reader) {
  RecordingReader recording(std::move(reader));
  std::vector<float> samples;
  recording.read_to_end(
      [&](const float* block, size_t n) { samples.insert(samples.end(), block, block + n); });
  return samples;
}

MelSpectrogram read_log_mel(AudioReader reader, int n_mels, std::span<const float> filters,
                            const std::function<void(double)>& on_progress) {
  RecordingReader recording(std::move(reader));
  MelSpectrogram mel(n_mels, filters);
  recording.read_to_end([&](const float* block, size_t n) {
    mel.push(block, n);
    if (on_progress) on_progress(recording.progress());
  });
  mel.finish();
  return mel;
}

}  // namespace vesper

#include "audio/samples.h"

#include <algorithm>
#include <utility>

#include "audio/block_worker.h"

namespace vesper {

SampleReader::SampleReader(AudioReader reader, size_t block_frames)
    : reader_(std::move(reader)), resampler_(reader_.sample_rate_hz()), block_(block_frames) {}

std::span<const float> SampleReader::next() {
  samples_.clear();
  while (samples_.empty() && !has_ended_) {
    const size_t got = reader_.read(block_.data(), block_.size());
    n_frames_read_ += got;
    resampler_.push(block_.data(), got, samples_);
    has_ended_ = got < block_.size();
    if (has_ended_) resampler_.finish(samples_);
  }
  return samples_;
}

double SampleReader::progress() const {
  const auto frames = reader_.frames_if_known();
  if (!frames || *frames == 0) return 0.0;
  return std::min(1.0, static_cast<double>(n_frames_read_) / static_cast<double>(*frames));
}

std::vector<float> read_samples(const std::string& path, ReaderOptions options) {
  return read_samples(AudioReader(path, options));
}

std::vector<float> read_samples(AudioReader reader) {
  SampleReader blocks(std::move(reader));
  std::vector<float> samples;
  for (auto block = blocks.next(); !block.empty(); block = blocks.next()) {
    samples.insert(samples.end(), block.begin(), block.end());
  }
  return samples;
}

MelSpectrogram read_log_mel(AudioReader reader, int n_mels, std::span<const float> filters,
                            const std::function<void(double)>& on_progress) {
  SampleReader blocks(std::move(reader));
  MelSpectrogram mel(n_mels, filters);
  BlockWorker transform([&](auto block) { mel.push(block.data(), block.size()); });
  for (auto block = blocks.next(); !block.empty(); block = blocks.next()) {
    transform.push(block);
    if (on_progress) on_progress(blocks.progress());
  }
  transform.finish();
  mel.finish();
  return mel;
}

}  // namespace vesper

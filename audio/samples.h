// Audio for the models: 16 kHz mono samples of a recording, or its log-mel spectrogram. Runs
// AudioReader, Resampler and MelSpectrogram.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "audio/mel.h"
#include "audio/reader.h"
#include "audio/resample.h"

namespace vesper {

// The 16 kHz mono samples of a recording, block by block.
class SampleReader {
 public:
  static constexpr size_t kBlockFrames = 16384;

  // Reads blocks of `block_frames` frames at the rate of the recording.
  explicit SampleReader(AudioReader reader, size_t block_frames = kBlockFrames);

  // The next samples, valid until the next call; empty at the end. Throws the errors of
  // AudioReader::read.
  std::span<const float> next();

  // Share of the recording that has been read, 0 to 1; always 0 if its length is unknown.
  double progress() const;

 private:
  AudioReader reader_;
  Resampler resampler_;
  std::vector<float> block_;    // [block_frames] at the rate of the recording
  std::vector<float> samples_;  // 16 kHz, of the last block
  uint64_t n_frames_read_ = 0;  // at the rate of the recording
  bool has_ended_ = false;
};

// The whole recording in memory, [n_samples], 16 kHz mono, 230 MB per hour. `read_log_mel` needs
// only a block at a time.
std::vector<float> read_samples(const std::string& path, ReaderOptions options = {});
std::vector<float> read_samples(AudioReader reader);

// The finished log-mel spectrogram of the whole recording (115 MB per hour at 80 mels), with one
// block of samples in memory at a time. `filters` as for MelSpectrogram. `on_progress`, if given,
// is called after each block with SampleReader::progress().
MelSpectrogram read_log_mel(AudioReader reader, int n_mels, std::span<const float> filters = {},
                            const std::function<void(double)>& on_progress = {});

}  // namespace vesper

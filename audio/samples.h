// Audio for the models: 16 kHz mono samples of a recording, or its log-mel spectrogram. Runs
// AudioReader, Resampler and MelSpectrogram.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "audio/mel/mel.h"
#include "audio/resample.h"
#include "audio/sources/input.h"
#include "audio/sources/reader.h"

namespace vesper {

// The 16 kHz mono samples of a recording, block by block.
class SampleReader {
 public:
  // 24 s at 44.1 kHz: the work of several threads lasts much longer than their start.
  static constexpr size_t kBlockFrames = size_t{1} << 20;
  // Of read_ahead(): an hour, 230 MB.
  static constexpr size_t kMostSamplesAhead = size_t{3600} * kSampleRateHz;

  // Reads blocks of `block_frames` frames at the rate of the recording.
  SampleReader(AudioReader reader, size_t block_frames = kBlockFrames);
  SampleReader(SampleReader&&) noexcept;
  SampleReader& operator=(SampleReader&&) noexcept;
  ~SampleReader();

  // Reads on a thread of its own from now on, until kMostSamplesAhead wait for next(). Without
  // effect if the system refuses a thread.
  void read_ahead();

  // The next samples, valid until the next call; empty at the end. Throws the errors of
  // AudioReader::read.
  std::span<const float> next();

  // Length of the recording by AudioReader::frames_if_known().
  std::optional<double> duration_s() const;

  // Share of the recording that next() has returned, 0 to 1; always 0 if its length is unknown.
  double progress() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A reader of `input` that has begun to read ahead. None if the input is live, or cannot be opened:
// who opens it again has the error.
std::optional<SampleReader> begin_reading(const AudioInput& input);

// The whole recording in memory, [n_samples], 16 kHz mono, 230 MB per hour. `read_log_mel` needs
// only a block at a time.
std::vector<float> read_samples(const std::string& path, ReaderOptions options = {});
std::vector<float> read_samples(SampleReader reader);

// The finished log-mel spectrogram of the whole recording (115 MB per hour at 80 mels), with one
// block of samples in memory at a time. `filters` as for MelSpectrogram. `on_progress`, if given,
// is called after each block with SampleReader::progress().
MelSpectrogram read_log_mel(SampleReader reader, int n_mels, std::span<const float> filters = {},
                            const std::function<void(double)>& on_progress = {});

}  // namespace vesper

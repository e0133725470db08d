// A recording as the models want it: the reader, the resampler and the mel front end in a row.
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

// 16 kHz mono, block by block, of a recording of any rate.
class RecordingReader {
 public:
  explicit RecordingReader(AudioReader reader);

  // Writes the next samples, [n], and returns how many; fewer than `n` only at the end. Throws what
  // AudioReader::read throws.
  size_t read(float* samples, size_t n);

  // Hands on all that is left, in blocks, the last of which may be empty. Throws what read throws.
  using TakeBlock = std::function<void(const float* samples, size_t n)>;
  void read_to_end(const TakeBlock& take);

  // How much of the recording has been read, 0 to 1; 0 throughout where its length is unknown.
  double progress() const;

  const AudioReader& reader() const { return reader_; }

 private:
  void fill();

  AudioReader reader_;
  Resampler resampler_;
  std::vector<float> block_;    // [kBlockFrames] at the recording's rate
  std::vector<float> samples_;  // 16 kHz, not handed out yet
  size_t n_taken_ = 0;          // of samples_
  uint64_t n_frames_read_ = 0;  // at the recording's rate
  bool has_ended_ = false;
};

// The whole recording in memory, [n_samples], 16 kHz mono: 230 MB an hour. Where only the log-mel
// is wanted, `read_log_mel` does without it.
std::vector<float> read_recording(const std::string& path, ReaderOptions options = {});
std::vector<float> read_recording(AudioReader reader);

// The finished log-mel spectrogram of the whole recording (115 MB an hour at 80 mels), computed
// while reading; of the samples themselves only a block is in memory at any time. `filters` as for
// MelSpectrogram. `on_progress`, if given, is called after each block with RecordingReader's
// progress.
MelSpectrogram read_log_mel(AudioReader reader, int n_mels, std::span<const float> filters = {},
                            const std::function<void(double)>& on_progress = {});

}  // namespace vesper

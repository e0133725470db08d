// SampleSource: where the samples of one recording come from. Inside audio/ only: AudioReader picks
// one (a file or memory through libsndfile, a WAV stream, or ffmpeg) and hides it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace vesper {

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Writes up to `n_frames` frames to `interleaved`, [n_frames, channels], full scale +-1.
  // Fewer than asked means the end. Throws Error(kInput) when decoding fails.
  virtual size_t read(float* interleaved, size_t n_frames) = 0;

  int64_t sample_rate_hz = 0;
  int64_t channels = 0;
  // As the header says: for a progress bar, never relied on in reading.
  std::optional<uint64_t> frames;
  // The header was completed after the last sample, so that fewer frames mean a cut-off recording.
  bool frames_are_promised = false;
};

}  // namespace vesper

// AudioInput: what a caller of the sessions gives to be transcribed, and how it is opened.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "audio/reader.h"
#include "audio/unlinked_file.h"

namespace vesper {

struct PcmFormat {
  uint32_t sample_rate_hz = 16000;
  uint32_t channels = 1;  // interleaved
};

// Samples in memory, which stay the caller's.
struct PcmSamples {
  std::span<const float> interleaved;  // [n_frames, channels], full scale +-1
  PcmFormat format = {};
};

// One recording: of `path`, `descriptor` and `samples` the last one that is set counts.
struct AudioInput {
  std::string path = {};               // a file, a named pipe, or "-" for standard input
  ReaderOptions reader = {};           // one channel alone, raw samples, without ffmpeg
  std::optional<int> descriptor = {};  // is read from here on; stays open, and the caller's
  std::optional<PcmSamples> samples = {};
};

// A reader at the input's beginning. Throws what AudioReader throws, and Error(kInput) for samples
// that are no whole number of frames.
AudioReader open_audio(const AudioInput& input);

// An input that can be read more than once.
class RewindableInput {
 public:
  // An input that cannot be read twice, a pipe, is first copied to a temporary file that has no
  // name. Throws Error(kInput) where that fails.
  explicit RewindableInput(const AudioInput& input);

  // A reader at the input's beginning: of the mean of all channels, or of one, counted from 0.
  // One at a time. Throws what AudioReader throws.
  AudioReader open(std::optional<int> channel = std::nullopt) const;

 private:
  AudioInput input_;
  UniqueFd copy_;  // instead of the input's path or descriptor
};

}  // namespace vesper

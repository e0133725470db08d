// AudioInput: audio that a caller gives to a session, and how it is opened.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "audio/sources/reader.h"
#include "audio/sources/unlinked_file.h"

namespace vesper {

struct PcmFormat {
  uint32_t sample_rate_hz = 16000;
  uint32_t channels = 1;  // interleaved
};

// Samples in memory, owned by the caller.
struct PcmSamples {
  std::span<const float> interleaved;  // [n_frames, channels], full scale +-1
  PcmFormat format = {};
};

// One recording. If several of `path`, `descriptor` and `samples` are set, the last one counts.
struct AudioInput {
  std::string path = {};      // a file, a named pipe, or "-" for standard input
  ReaderOptions reader = {};  // channel, raw samples, ffmpeg
  // Read from its position; stays open, owned by the caller. `path` is then its name in messages.
  std::optional<int> descriptor = {};
  std::optional<PcmSamples> samples = {};
};

// A reader at the beginning of the input. Throws the errors of AudioReader, and Error(kInput) for
// an incomplete frame of samples.
AudioReader open_audio(const AudioInput& input);

// Whether all of the sound is there already, in a regular file or in memory. A pipe or a device may
// be live.
bool is_recorded(const AudioInput& input);

// An input that can be read several times.
class RewindableInput {
 public:
  // Copies an input that cannot be read twice, such as a pipe, to an unnamed temporary file. Throws
  // Error(kInput) if that fails.
  explicit RewindableInput(const AudioInput& input);

  // A reader at the beginning of the input, of the mean of all channels or of one (from 0). Use one
  // reader at a time. Throws the errors of AudioReader.
  AudioReader open(std::optional<int> channel = std::nullopt) const;

 private:
  AudioInput input_;
  UniqueFd copy_;  // replaces the path or descriptor
};

}  // namespace vesper

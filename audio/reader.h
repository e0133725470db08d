// Audio comes in here: a file, a pipe or bytes in memory in, mono float samples at the recording's
// own rate out. Then follow resample.h (to 16 kHz) and mel.h (the log-mel spectrogram). samples.h
// runs the three in a row, and input.h opens whatever a caller of the sessions gives.
//
// Only audio/ includes the headers of codecs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

// Samples without a header, interleaved, as sound cards and other programs give them.
struct RawPcm {
  enum class Encoding { kS16Le, kF32Le };
  Encoding encoding = Encoding::kS16Le;
  uint32_t sample_rate_hz = 16000;
  uint32_t channels = 1;
};

struct ReaderOptions {
  bool use_ffmpeg = true;  // start ffmpeg, if it is on $PATH, for what libsndfile cannot read
  // Only this channel, counted from 0, instead of the mean of all. A recording that does not have
  // it is an Error(kInput).
  std::optional<int> channel = std::nullopt;
  // What the recording is, which then has no header.
  std::optional<RawPcm> raw = std::nullopt;
};

// One recording, read from its beginning to its end once.
//
// libsndfile reads WAV of any depth and channel count, AIFF, FLAC, Ogg Vorbis, Opus, MP3 and more;
// ffmpeg, where it is installed, the rest. A length that a header states is never relied on: the
// samples that are there are read, to the end. But where fewer are there than a completed WAV or
// FLAC header promises, the end is an error: the recording has been cut off. (Headers of streams,
// which could not be completed, state no length or one of 2 GiB and more.)
class AudioReader {
 public:
  static constexpr int kMinSampleRateHz = 1000;
  static constexpr int kMaxSampleRateHz = 768000;
  static constexpr int kMaxChannels = 256;

  // Opens `path`; "-" is standard input. A path that is no regular file (a named pipe, the shell's
  // <(...)) is read like standard input, see `from_stream`.
  // Every constructor throws Error(kInput), naming the recording and what was tried, where it
  // cannot be opened or is a directory, where no reader knows its format, where it has no sample at
  // all, or where rate or channels are outside the limits above.
  explicit AudioReader(const std::string& path, ReaderOptions options = {});

  // Reads from `fd`, which stays the caller's. A WAV stream of plain integers or floats is decoded
  // as it arrives; all else is first copied to a temporary file that has no name.
  static AudioReader from_stream(int fd, const std::string& name, ReaderOptions options = {});

  // `bytes` [whole file] must stay as long as the reader.
  static AudioReader from_memory(std::span<const uint8_t> bytes, const std::string& name,
                                 ReaderOptions options = {});

  AudioReader(AudioReader&&) noexcept;
  AudioReader& operator=(AudioReader&&) noexcept;
  ~AudioReader();

  // Writes the next samples, [n], the mean of all channels (or the one asked for), full scale +-1;
  // returns how many, fewer than `n` only at the end. Throws Error(kInput) where decoding fails in
  // the middle, and at a sample that is not a number, infinite or beyond +-1e6: whatever wrote it
  // has failed, and a text made from the rest would not show it.
  size_t read(float* mono, size_t n);

  // The same with all channels, [n, channels()], whatever channel was asked for.
  size_t read_interleaved(float* frames, size_t n);

  int sample_rate_hz() const;
  int channels() const;  // of the recording, before the downmix

  // Frames (samples per channel) that the header states, for a progress bar; absent for a stream.
  std::optional<uint64_t> frames_if_known() const;

  // How messages name the recording: the quoted path, or "standard input".
  const std::string& name() const;

 private:
  struct State;
  explicit AudioReader(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Whether a file's name ends in the extension of a format that AudioReader reads ("talk.wav",
// "talk.FLAC", "film.mkv"), whatever its case.
bool has_audio_extension(std::string_view file_name);

}  // namespace vesper

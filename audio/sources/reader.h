// Decodes audio. In: a file, a pipe or bytes in memory. Out: mono float samples at the rate of the
// recording. resample.h and mel.h follow. samples.h runs all three, and input.h opens the inputs of
// sessions.
//
// Only audio/ includes codec headers.
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

// Interleaved samples without a header.
struct RawPcm {
  enum class Encoding { kS16Le, kF32Le };
  Encoding encoding = Encoding::kS16Le;
  uint32_t sample_rate_hz = 16000;
  uint32_t channels = 1;
};

struct ReaderOptions {
  bool use_ffmpeg = true;  // use ffmpeg, if on $PATH, for formats that libsndfile cannot read
  // Only this channel, from 0, instead of the mean of all. Error(kInput) if the recording lacks it.
  std::optional<int> channel = std::nullopt;
  // The longest recording, in seconds; Error(kInput) beyond it. A small file of unknown origin may
  // decode to days of silence.
  std::optional<double> max_s = std::nullopt;
  // The longest time of decoding, in seconds; Error(kInput) beyond it. A damaged or hostile file
  // may keep a decoder busy without giving samples.
  std::optional<double> max_decoding_s = std::nullopt;
  // Format of a recording without a header.
  std::optional<RawPcm> raw = std::nullopt;
  // Of a pipe: ffmpeg decodes it as it arrives, where otherwise all of it is copied first. For
  // containers that can be read without seeking, such as WebM and Ogg.
  bool is_live_container = false;
};

// A recording, read once from beginning to end.
//
// libsndfile reads WAV of any depth and channel count, AIFF, FLAC, Ogg Vorbis, Opus, MP3 and more;
// ffmpeg, if installed, reads other formats. Reading goes to the last sample, whatever length the
// header has. Fewer samples than a complete WAV or FLAC header states are an error: the recording
// is cut off. (Headers of streams state no length, or one of 2 GiB and more.)
class AudioReader {
 public:
  static constexpr int kMinSampleRateHz = 1000;
  static constexpr int kMaxSampleRateHz = 768000;
  static constexpr int kMaxChannels = 256;

  // Opens `path`; "-" is standard input. A named pipe is read like standard input, see
  // `from_stream`. Constructors throw Error(kInput), naming the recording and what was tried, if it
  // cannot be opened, is a directory, has an unknown format or no samples, or its rate or channels
  // are outside the limits above.
  explicit AudioReader(const std::string& path, ReaderOptions options = {});

  // Reads from `fd`, owned by the caller. A WAV stream of integers or floats is decoded as it
  // arrives. Everything else is first copied to an unnamed temporary file.
  static AudioReader from_stream(int fd, const std::string& name, ReaderOptions options = {});

  // `bytes` [whole file] must outlive the reader.
  static AudioReader from_memory(std::span<const uint8_t> bytes, const std::string& name,
                                 ReaderOptions options = {});

  AudioReader(AudioReader&&) noexcept;
  AudioReader& operator=(AudioReader&&) noexcept;
  ~AudioReader();

  // Writes the next samples, [n], the mean of all channels or the selected one, full scale +-1.
  // Returns how many, fewer than `n` only at the end. Throws Error(kInput) if decoding fails, and
  // for a sample that is not finite or beyond +-1e6.
  size_t read(float* mono, size_t n);

  // The same with all channels, [n, channels()], ignoring ReaderOptions::channel.
  size_t read_interleaved(float* frames, size_t n);

  int sample_rate_hz() const;
  int channels() const;  // of the recording

  // Frames (samples per channel) by the header or the size of the file, for a progress bar; absent
  // for a stream.
  std::optional<uint64_t> frames_if_known() const;

  // The recording in messages: the quoted path, or "standard input".
  const std::string& name() const;

 private:
  struct State;
  explicit AudioReader(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Whether the extension of a file name is that of a readable format ("talk.wav", "talk.FLAC",
// "film.mkv"), in any case.
bool has_audio_extension(std::string_view file_name);

}  // namespace vesper

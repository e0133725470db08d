// SampleSource: decodes one recording at its own rate and channel count. Inside audio/ only:
// AudioReader opens one by libsndfile, by ffmpeg, or as a WAV or raw stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "audio/byte_stream.h"
#include "audio/reader.h"

namespace vesper {

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Writes up to `n_frames` frames to `interleaved`, [n_frames, channels], full scale +-1.
  // Fewer than asked means the end. Throws Error(kInput) when decoding fails.
  virtual size_t read(float* interleaved, size_t n_frames) = 0;

  int64_t sample_rate_hz = 0;
  int64_t channels = 0;
  // The length that the header states: for a progress bar, never relied on in reading.
  std::optional<uint64_t> frames;
  // The header was completed after the last sample, so that fewer frames mean a cut-off recording.
  bool frames_are_promised = false;
};

// libsndfile: WAV, AIFF, FLAC, Ogg Vorbis and Opus, MP3 and two dozen more formats. Each returns
// null, with libsndfile's reason in `why`, for what it cannot open. `name` is for the errors of
// later reads.
std::unique_ptr<SampleSource> open_with_sndfile(const std::string& path, const std::string& name,
                                                std::string& why);
// `fd` must be seekable; it stays the caller's.
std::unique_ptr<SampleSource> open_with_sndfile(int fd, const std::string& name, std::string& why);
// `bytes` must stay as long as the source.
std::unique_ptr<SampleSource> open_with_sndfile(std::span<const uint8_t> bytes,
                                                const std::string& name, std::string& why);

// Whether an executable file named ffmpeg is in a folder of $PATH.
bool ffmpeg_is_on_path();

// The program ffmpeg, for what libsndfile does not read (m4a, mp4, webm, ...). Starts it, without a
// shell and without the network, on the file `path`, or where `path` is empty on the open file `fd`
// (seekable; read from its beginning through /dev/fd). It reads the audio stream that ffmpeg ranks
// best. Throws Error(kInput) with the last line of ffmpeg's stderr when ffmpeg cannot be started,
// finds no audio, fails, or is killed, now or in a later read. The process ends with the source.
std::unique_ptr<SampleSource> open_with_ffmpeg(const std::string& path, int fd,
                                               const std::string& name);

// A RIFF or RF64 WAV that cannot seek: a pipe, or what ffmpeg writes. Samples come out as they
// arrive. Reads the header from `stream`, up to the first sample. Returns null, with the stream
// rewound, for another format or an encoding other than 8 to 32-bit integers and 32 and 64-bit
// floats: libsndfile may know it. `stream` must outlive the source.
//
// The samples end where the data chunk says, so that chunks after it are not decoded, or at the end
// of the stream where that comes first. A size that writers use for "unknown" (0, or from
// 0x7FFF0000 up) means the end of the stream.
std::unique_ptr<SampleSource> open_wav_stream(ByteStream& stream);

// Samples without a header, to the end of `stream`, which must outlive the source.
std::unique_ptr<SampleSource> open_raw_stream(ByteStream& stream, const RawPcm& raw);

}  // namespace vesper

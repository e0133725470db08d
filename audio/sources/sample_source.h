// SampleSource: decodes one recording at its rate and channel count. Inside audio/ only:
// AudioReader opens one with libsndfile, with ffmpeg, or as a WAV or raw stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "audio/sources/byte_stream.h"
#include "audio/sources/reader.h"

namespace vesper {

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Writes up to `n_frames` frames to `interleaved`, [n_frames, channels], full scale +-1. Fewer
  // than `n_frames` means the end. Throws Error(kInput) if decoding fails.
  virtual size_t read(float* interleaved, size_t n_frames) = 0;
  // The same as integers, full scale +-32768. Only for sources whose `is_16_bit` is true.
  virtual size_t read_16_bit(int16_t* interleaved, size_t n_frames);

  int64_t sample_rate_hz = 0;
  int64_t channels = 0;
  // Length by the header or the size of the file, which may be wrong.
  std::optional<uint64_t> frames;
  // The header was completed after the last sample: fewer frames mean a cut-off recording.
  bool frames_are_promised = false;
  // Its samples are integers of 16 bits, which need no check and are faster to read as such.
  bool is_16_bit = false;
};

// libsndfile: WAV, AIFF, FLAC, Ogg Vorbis and Opus, MP3 and two dozen more formats. Returns null,
// and libsndfile's reason in `why`, if it cannot open the recording. `name` is for later errors.
// `fd` is a seekable file, owned by the caller, and read from its beginning. Headerless formats are
// known by the extension of `path`, which may be empty. Throws Error(kInput) if reading fails, here
// and in SampleSource::read().
std::unique_ptr<SampleSource> open_with_sndfile(int fd, const std::string& path,
                                                const std::string& name, std::string& why);
// `bytes` must outlive the source.
std::unique_ptr<SampleSource> open_with_sndfile(std::span<const uint8_t> bytes,
                                                const std::string& name, std::string& why);

// The error of ReaderOptions::max_decoding_s.
[[noreturn]] void throw_too_slow(const std::string& name, double max_s);

// Whether $PATH has an executable file named ffmpeg.
bool ffmpeg_is_on_path();

// ffmpeg, for what libsndfile does not read (m4a, mp4, webm, ...). Started without a shell and
// without network access on the file `path`, or, if `path` is empty, on the open seekable file `fd`
// (from its beginning, through /dev/fd). Reads the audio stream that ffmpeg ranks best. This and
// later reads throw Error(kInput) with the last line of ffmpeg's stderr if ffmpeg cannot be
// started, finds no audio, fails, is killed, or has been waited for longer than `max_wait_s` in
// all. The process ends with the source.
std::unique_ptr<SampleSource> open_with_ffmpeg(const std::string& path, int fd,
                                               const std::string& name,
                                               std::optional<double> max_wait_s = {});

// A RIFF or RF64 WAV that cannot seek: a pipe, or ffmpeg's output. Decodes samples as they arrive.
// Reads the header from `stream` up to the first sample. Returns null, with the stream rewound, for
// another format or encoding (8 to 32-bit integers, 32 and 64-bit floats): libsndfile may read it.
// `stream` must outlive the source.
//
// The samples end with the data chunk or with the stream. A chunk size that writers use for
// "unknown" (0, or 0x7FFF0000 and above) means the end of the stream.
std::unique_ptr<SampleSource> open_wav_stream(ByteStream& stream);

// Headerless samples up to the end of `stream`, which must outlive the source. `n_bytes`: its
// length if that is known.
std::unique_ptr<SampleSource> open_raw_stream(ByteStream& stream, const RawPcm& raw,
                                              std::optional<uint64_t> n_bytes = {});

}  // namespace vesper

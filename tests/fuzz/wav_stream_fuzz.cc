// The WAV stream that ffmpeg and other programs write to a pipe, in pieces of any size.
#include <algorithm>

#include "audio/sources/sample_source.h"
#include "tests/audio/made_recordings.h"
#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {

std::vector<std::string> seeds() {
  // The first byte is the size of the pieces.
  std::vector<std::string> streams = {
      "\x10" + wav_bytes(std::vector<int16_t>(64, 1000), 2, 16000),
      // ffmpeg does not know the length.
      "\x07" + wav_bytes(std::vector<int16_t>(64, 1000), 1, 48000, 0xFFFFFFFF)};
  const TemporaryFolder folder;
  for (const int format : {SF_FORMAT_WAVEX | SF_FORMAT_FLOAT, SF_FORMAT_WAV | SF_FORMAT_DOUBLE,
                           SF_FORMAT_WAV | SF_FORMAT_PCM_24, SF_FORMAT_RF64 | SF_FORMAT_PCM_16}) {
    write_with_sndfile(folder.file("seed"), format, 1, 16000, noise(0.5f, 64, 8));
    streams.push_back("\x40" + bytes_of(folder.file("seed")));
  }
  return streams;
}

void use(Bytes input) {
  if (input.empty()) return;
  const size_t piece = input[0] + size_t{1};
  Bytes rest = input.subspan(1);
  ByteStream stream([&](uint8_t* bytes, size_t n) {
    n = std::min({n, piece, rest.size()});
    std::copy_n(rest.begin(), n, bytes);
    rest = rest.subspan(n);
    return n;
  });
  const auto source = open_wav_stream(stream);
  if (!source) return;
  require(source->channels > 0 && source->channels <= 65535, "a number of channels");
  std::vector<float> frames(static_cast<size_t>(source->channels) * 7);
  size_t n_frames = 0;
  while (source->read(frames.data(), 7) == 7) n_frames += 7;
  require(n_frames <= input.size(), "more frames than bytes");
}

}  // namespace vesper::fuzz

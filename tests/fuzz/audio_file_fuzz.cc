// Recordings in the formats that libsndfile reads, as files and through a pipe.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>

#include "audio/samples.h"
#include "error/error.h"
#include "tests/audio/made_recordings.h"
#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {
namespace {

// A compressed second takes a few bytes, so that a bound of samples per byte would say nothing;
// this bounds the time of one input.
constexpr size_t kMostSamples = size_t{1} << 22;

void read_all(AudioReader reader) {
  SampleReader blocks(std::move(reader), 4096);
  size_t n = 0;
  for (auto block = blocks.next(); !block.empty() && n < kMostSamples; block = blocks.next()) {
    for (const float sample : block) require(std::isfinite(sample), "a sample that is not finite");
    n += block.size();
  }
}

}  // namespace

// libsndfile 1.2 leaks what libvorbis has allocated for a damaged Ogg file.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libvorbis\nleak:libsndfile\nleak:libogg\nleak:libopus\n";
}

std::vector<std::string> seeds() {
  std::vector<std::string> recordings = {wav_bytes(std::vector<int16_t>(64, 1000), 2, 16000)};
  const TemporaryFolder folder;
  for (const int format : {SF_FORMAT_WAVEX | SF_FORMAT_FLOAT, SF_FORMAT_WAV | SF_FORMAT_PCM_24,
                           SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, SF_FORMAT_RF64 | SF_FORMAT_PCM_16,
                           SF_FORMAT_AIFF | SF_FORMAT_PCM_16, SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                           SF_FORMAT_OGG | SF_FORMAT_VORBIS, SF_FORMAT_OGG | SF_FORMAT_OPUS,
                           SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III}) {
    write_with_sndfile(folder.file("seed"), format, 1, 16000, noise(0.5f, 64, 8));
    recordings.push_back(bytes_of(folder.file("seed")));
  }
  return recordings;
}

void use(Bytes input) {
  std::exception_ptr error;
  try {
    read_all(AudioReader::from_memory(input, "memory", {.use_ffmpeg = false}));
  } catch (const Error&) {
    error = std::current_exception();
  }
  static const int file = ::memfd_create("recording", MFD_CLOEXEC);
  require(::ftruncate(file, 0) == 0 && ::lseek(file, 0, SEEK_SET) == 0 &&
              ::write(file, input.data(), input.size()) == static_cast<ssize_t>(input.size()) &&
              ::lseek(file, 0, SEEK_SET) == 0,
          "no memory file");
  read_all(AudioReader::from_stream(file, "stream", {.use_ffmpeg = false}));
  if (error) std::rethrow_exception(error);
}

}  // namespace vesper::fuzz

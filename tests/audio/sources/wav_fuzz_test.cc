// Damaged WAV headers: each gives an error or sound samples, within little memory.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <random>

#include "audio/samples.h"
#include "audio/sources/reader.h"
#include "error/error.h"
#include "tests/audio/made_recordings.h"

#if defined(VESPER_SANITIZED)
// The sanitizer's address space cannot be limited, but its allocations can.
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=256:allocator_may_return_null=1";
}
#endif

namespace vesper {
namespace {

constexpr size_t kMaxSoundSamples = 1 << 20;  // at 16 kHz: the limit for a file of a few hundred
                                              // bytes

class MemoryCap : public testing::Environment {
 public:
  void SetUp() override {
#if !defined(VESPER_SANITIZED)
    const rlimit limit = {size_t{512} << 20, size_t{512} << 20};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
#endif
  }
};
const auto* const kMemoryCap = testing::AddGlobalTestEnvironment(new MemoryCap);

// Reads the whole file. True if it is sound, false for an Error; any other exception fails the
// test.
bool is_sound(AudioReader (*open)(const std::string& bytes), const std::string& bytes) {
  try {
    SampleReader blocks(open(bytes), 4096);
    size_t n_samples = 0;
    for (auto block = blocks.next(); !block.empty(); block = blocks.next()) {
      for (size_t i = 0; i < block.size(); ++i) {
        if (!std::isfinite(block[i])) {
          ADD_FAILURE() << "sample " << n_samples + i << " is not finite";
          return true;
        }
      }
      n_samples += block.size();
      if (n_samples > kMaxSoundSamples) {
        ADD_FAILURE() << "more samples than the bytes can hold";
        return true;
      }
    }
    return true;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput) << e.what();
    EXPECT_NE(std::strlen(e.what()), 0u);
    return false;
  }
}

AudioReader open_memory(const std::string& bytes) {
  return AudioReader::from_memory({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                                  "fuzzed", {.use_ffmpeg = false});
}

// Through a pipe; the bytes fit into its buffer.
AudioReader open_pipe(const std::string& bytes) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
  if (::write(ends[1], bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("cannot fill a pipe");
  }
  ::close(ends[1]);
  struct CloseFd {
    int fd;
    ~CloseFd() { ::close(fd); }
  } const closing{ends[0]};
  return AudioReader::from_stream(ends[0], "fuzzed", {.use_ffmpeg = false});
}

// Small WAVs of several kinds, each with 2 ms of samples.
std::vector<std::string> seeds() {
  std::vector<std::string> wavs = {wav_bytes(std::vector<int16_t>(64, 1000), 2, 16000)};
  const TemporaryFolder folder;
  const int formats[] = {SF_FORMAT_WAVEX | SF_FORMAT_FLOAT, SF_FORMAT_WAV | SF_FORMAT_PCM_24,
                         SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, SF_FORMAT_RF64 | SF_FORMAT_PCM_16};
  for (const int format : formats) {
    write_with_sndfile(folder.file("seed.wav"), format, 1, 16000, noise(0.5f, 32, 8));
    wavs.push_back(bytes_of(folder.file("seed.wav")));
  }
  return wavs;
}

TEST(WavFuzz, TruncatedFilesAreAnErrorOrValid) {
  for (const std::string& wav : seeds()) {
    ASSERT_TRUE(is_sound(open_memory, wav));
    ASSERT_TRUE(is_sound(open_pipe, wav));
    for (size_t length = 0; length < wav.size(); ++length) {
      SCOPED_TRACE("length " + std::to_string(length));
      is_sound(open_memory, wav.substr(0, length));
      is_sound(open_pipe, wav.substr(0, length));
    }
  }
  // The plain one has no chunk after its samples, so every shorter file is cut off.
  const std::string plain = seeds()[0];
  for (size_t length = 0; length < plain.size(); ++length) {
    EXPECT_FALSE(is_sound(open_memory, plain.substr(0, length))) << length;
    EXPECT_FALSE(is_sound(open_pipe, plain.substr(0, length))) << length;
  }
}

// `n_trials` damaged copies with one to four changed bytes, most of them in the header.
void flip_bytes(AudioReader (*open)(const std::string&), uint32_t seed, int n_trials) {
  std::mt19937 random(seed);
  const std::vector<std::string> wavs = seeds();
  int n_sound = 0;
  for (int trial = 0; trial < n_trials && !testing::Test::HasFailure(); ++trial) {
    std::string wav = wavs[random() % wavs.size()];
    for (uint32_t flips = random() % 4 + 1; flips > 0; --flips) {
      const size_t range = random() % 4 == 0 ? wav.size() : std::min<size_t>(wav.size(), 100);
      wav[random() % range] ^= static_cast<char>(random() % 255 + 1);
    }
    SCOPED_TRACE("trial " + std::to_string(trial) + " of seed " + std::to_string(seed));
    n_sound += is_sound(open, wav);
  }
  // Some are rejected and some accepted: the damage reaches beyond the first check.
  EXPECT_GT(n_sound, n_trials / 20);
  EXPECT_LT(n_sound, n_trials * 19 / 20);
}

TEST(WavFuzz, DamagedFilesAreAnErrorOrValid) { flip_bytes(open_memory, 1, 100000); }

TEST(WavFuzz, DamagedStreamsAreAnErrorOrValid) { flip_bytes(open_pipe, 2, 20000); }

}  // namespace
}  // namespace vesper

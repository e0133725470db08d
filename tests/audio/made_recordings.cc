#include "tests/audio/made_recordings.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <numbers>

namespace vesper {

std::vector<float> tone(double hz, double amplitude, size_t n, int rate_hz) {
  std::vector<float> samples(n);
  for (size_t i = 0; i < n; ++i) {
    samples[i] = static_cast<float>(
        amplitude * std::sin(2.0 * std::numbers::pi * hz * static_cast<double>(i) / rate_hz));
  }
  return samples;
}

std::vector<float> noise(float amplitude, size_t n, uint32_t seed) {
  std::vector<float> samples(n);
  for (float& x : samples) {
    seed = seed * 1664525u + 1013904223u;
    x = amplitude * (static_cast<float>(seed >> 8) / 8388608.0f - 1.0f);
  }
  return samples;
}

void write_with_sndfile(const std::string& path, int format, int channels, int rate_hz,
                        const std::vector<float>& interleaved) {
  SF_INFO info = {};
  info.format = format;
  info.channels = channels;
  info.samplerate = rate_hz;
  SNDFILE* file = sf_open(path.c_str(), SFM_WRITE, &info);
  ASSERT_NE(file, nullptr) << sf_strerror(nullptr);
  const auto n_frames = static_cast<sf_count_t>(interleaved.size()) / channels;
  EXPECT_EQ(sf_writef_float(file, interleaved.data(), n_frames), n_frames);
  sf_close(file);
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string wav_bytes(const std::vector<int16_t>& interleaved, int channels, uint32_t rate_hz,
                      uint32_t data_bytes) {
  std::string wav;
  const auto put = [&wav](uint64_t value, int n_bytes) {
    for (int i = 0; i < n_bytes; ++i) wav.push_back(static_cast<char>(value >> (8 * i)));
  };
  const uint32_t frame_bytes = 2 * static_cast<uint32_t>(channels);
  wav += "RIFF";
  put(uint64_t{data_bytes} + 36, 4);
  wav += "WAVEfmt ";
  put(16, 4);
  put(1, 2);  // PCM
  put(static_cast<uint32_t>(channels), 2);
  put(rate_hz, 4);
  put(rate_hz * frame_bytes, 4);
  put(frame_bytes, 2);
  put(16, 2);
  wav += "data";
  put(data_bytes, 4);
  for (const int16_t sample : interleaved) put(static_cast<uint16_t>(sample), 2);
  return wav;
}

std::string wav_bytes(const std::vector<int16_t>& interleaved, int channels, uint32_t rate_hz) {
  return wav_bytes(interleaved, channels, rate_hz, static_cast<uint32_t>(interleaved.size() * 2));
}

PipeOf::PipeOf(std::string bytes, size_t piece) {
  if (::pipe2(ends_, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  ::signal(SIGPIPE, SIG_IGN);  // a reader that stops early must not end the test
  writer_ = std::thread([end = ends_[1], bytes = std::move(bytes), piece] {
    for (size_t at = 0; at < bytes.size(); at += piece) {
      const size_t n = std::min(piece, bytes.size() - at);
      if (::write(end, bytes.data() + at, n) != static_cast<ssize_t>(n)) break;
    }
    ::close(end);
  });
}

PipeOf::~PipeOf() {
  ::close(ends_[0]);
  writer_.join();
}

ScopedEnvironment::ScopedEnvironment(const char* name, const std::string& value) : name_(name) {
  const char* before = std::getenv(name);
  was_set_ = before != nullptr;
  if (was_set_) before_ = before;
  ::setenv(name, value.c_str(), 1);
}

ScopedEnvironment::~ScopedEnvironment() {
  if (was_set_) {
    ::setenv(name_, before_.c_str(), 1);
  } else {
    ::unsetenv(name_);
  }
}

}  // namespace vesper

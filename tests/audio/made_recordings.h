// Generated recordings for the audio tests: tones, WAV bytes, files written by libsndfile.
#pragma once

#include <sndfile.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/temporary_folder.h"

namespace vesper {

// amplitude * sin(2 pi hz t), [n].
std::vector<float> tone(double hz, double amplitude, size_t n, int rate_hz);

// n values in +-amplitude from a fixed linear congruential sequence, equal on every machine.
std::vector<float> noise(float amplitude, size_t n, uint32_t seed);

// Writes `interleaved` [n_frames, channels] to `path`.
void write_with_sndfile(const std::string& path, int format, int channels, int rate_hz,
                        const std::vector<float>& interleaved);

std::string bytes_of(const std::string& path);
void write_bytes(const std::string& path, const std::string& bytes);

// A WAV of 16-bit samples whose header states `data_bytes`, right or wrong.
std::string wav_bytes(const std::vector<int16_t>& interleaved, int channels, uint32_t rate_hz,
                      uint32_t data_bytes);
std::string wav_bytes(const std::vector<int16_t>& interleaved, int channels, uint32_t rate_hz);

// The read end of a pipe; a thread writes `bytes` to it in pieces of `piece` bytes.
class PipeOf {
 public:
  PipeOf(std::string bytes, size_t piece);
  ~PipeOf();
  int fd() const { return ends_[0]; }

 private:
  int ends_[2];
  std::thread writer_;
};

// Sets an environment variable during a scope.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const std::string& value);
  ~ScopedEnvironment();

 private:
  const char* name_;
  std::string before_;
  bool was_set_;
};

}  // namespace vesper

// Files like Silero VAD's, with weights of 0.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace vesper {

struct SileroHeader {
  std::string json = {};  // of the safetensors file
  size_t n_weight_bytes = 0;
};
SileroHeader silero_header();
// A model for which all sound is speech, with a probability of 0.73.
void write_silero_of_speech(const std::filesystem::path& path);

}  // namespace vesper

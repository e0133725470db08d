#include "tests/vad/silero_file.h"

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace vesper {

SileroHeader silero_header() {
  nlohmann::json header;
  size_t end = 0;
  const auto add = [&](const char* name, const std::vector<size_t>& shape) {
    size_t bytes = 2;
    for (const size_t size : shape) bytes *= size;
    header[name] = {{"dtype", "F16"}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  };
  add("stft_conv.weight", {258, 1, 256});
  add("conv1.weight", {128, 129, 3});
  add("conv1.bias", {128});
  add("conv2.weight", {64, 128, 3});
  add("conv2.bias", {64});
  add("conv3.weight", {64, 64, 3});
  add("conv3.bias", {64});
  add("conv4.weight", {128, 64, 3});
  add("conv4.bias", {128});
  add("lstm_cell.weight_ih", {512, 128});
  add("lstm_cell.weight_hh", {512, 128});
  add("lstm_cell.bias_ih", {512});
  add("lstm_cell.bias_hh", {512});
  add("final_conv.weight", {1, 128, 1});
  add("final_conv.bias", {1});
  return {header.dump(), end};
}

void write_silero_of_speech(const std::filesystem::path& path) {
  const SileroHeader header = silero_header();
  const uint64_t size = header.json.size();
  std::vector<char> weights(header.n_weight_bytes);
  weights.back() = 0x3c;  // final_conv.bias in f16 is 1
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header.json;
  file.write(weights.data(), static_cast<std::streamsize>(weights.size()));
}

}  // namespace vesper

// The header of Silero VAD's weights. The weights behind it are zeros.
#include <cstring>
#include <nlohmann/json.hpp>

#include "llm/cpu/cpu_device.h"
#include "llm/weights/hugging_face/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "vad/silero_vad.h"

namespace vesper::fuzz {
namespace {

constexpr size_t kWeightBytes = 1 << 20;

}  // namespace

std::vector<std::string> seeds() {
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
  require(end <= kWeightBytes, "expected less weights");
  return {header.dump()};
}

void use(Bytes input) {
  const uint64_t size = input.size();
  std::vector<uint8_t> bytes(sizeof size + size + kWeightBytes);
  std::memcpy(bytes.data(), &size, sizeof size);
  std::copy(input.begin(), input.end(), bytes.begin() + sizeof size);
  Safetensors file;
  read_safetensors(std::make_shared<const MappedFile>("silero.safetensors", std::move(bytes)),
                   file);
  ModelContents contents;
  contents.files = std::move(file.files);
  contents.tensors = std::move(file.tensors);
  contents.unreadable = std::move(file.unreadable);
  const WeightProvider weights("silero.safetensors", std::move(contents));
  const auto device = open_cpu_device({.n_threads = 1});
  SileroVad vad(*device, weights);
  const std::vector<float> samples(SileroVad::kChunkSamples, 0.1f);
  vad.push(samples.data(), samples.size());
  vad.finish();
}

}  // namespace vesper::fuzz

// The header of Silero VAD's weights. The weights behind it are zeros.
#include <cstring>
#include <utility>

#include "llm/cpu/cpu_device.h"
#include "llm/weights/hugging_face/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/vad/silero_file.h"
#include "vad/silero_vad.h"

namespace vesper::fuzz {
namespace {

constexpr size_t kWeightBytes = 1 << 20;

}  // namespace

std::vector<std::string> seeds() {
  SileroHeader header = silero_header();
  require(header.n_weight_bytes <= kWeightBytes, "expected less weights");
  return {std::move(header.json)};
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

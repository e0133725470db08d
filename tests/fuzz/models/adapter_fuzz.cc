// LoRA adapters of PEFT and in GGUF, and the changes that they make to a model.
#include <algorithm>
#include <tuple>

#include "llm/conversion/adapters.h"
#include "llm/files/gguf_file.h"
#include "llm/files/gguf_writer.h"
#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {
namespace {

const WeightProvider& model() {
  static const auto weights = open_weights(std::filesystem::path(LANGUAGE_MODELS) / "llama");
  return *weights;
}

const SoundFolders& sound() {
  static const SoundFolders folders = [] {
    std::vector<Files> adapters;
    for (const char* name : {"llama", "llama-patterns"}) {
      Files files = files_of(std::filesystem::path(ADAPTERS) / name);
      std::erase_if(files, [](const auto& file) { return file->name().starts_with("reference"); });
      adapters.push_back(std::move(files));
    }
    return SoundFolders(std::move(adapters));
  }();
  return folders;
}

std::string gguf_adapter() {
  GgufWriter writer;
  writer.add("general.type", "adapter");
  writer.add("general.architecture", "llama");
  writer.add("adapter.type", "lora");
  writer.add("adapter.lora.alpha", 4.0f);
  std::string data;
  for (const auto& [name, rows, columns] : {std::tuple("blk.0.attn_q.weight.lora_a", 2, 32),
                                            std::tuple("blk.0.attn_q.weight.lora_b", 32, 2),
                                            std::tuple("token_embd.weight.lora_a", 64, 1),
                                            std::tuple("token_embd.weight.lora_b", 32, 1)}) {
    const uint64_t bytes = sizeof(float) * static_cast<uint64_t>(rows * columns);
    writer.add_tensor(name, {static_cast<uint64_t>(rows), static_cast<uint64_t>(columns)}, 0,
                      bytes);
    data += std::string(bytes + GgufWriter::padding(bytes), '\1');
  }
  return writer.head() + data;
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> seeds = sound().seeds();
  seeds.push_back(gguf_adapter());
  return seeds;
}

void use(Bytes input) {
  const auto file = std::make_shared<const MappedFile>(
      "adapter.gguf", std::vector<uint8_t>(input.begin(), input.end()));
  const Adapter adapter = is_gguf(*file) ? read_gguf_adapter(file, model())
                                         : read_peft_adapter(sound().with(input), model());
  for (const auto& [name, change] : adapter.changes) {
    const TensorView& tensor = model().require(name);
    std::vector<float> rows(tensor.n_elements());
    change.add(change.read(), 0, tensor.shape[0], rows.data());
  }
}

}  // namespace vesper::fuzz

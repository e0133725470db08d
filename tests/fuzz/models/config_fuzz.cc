// config.json of language models of each family, and what is built from it.
#include <algorithm>

#include "llm/cpu/cpu_device.h"
#include "llm/generation/generator.h"
#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {
namespace {

const SoundFolders& sound() {
  static const SoundFolders folders = [] {
    std::vector<Files> models;
    for (const auto& folder : std::filesystem::directory_iterator(LANGUAGE_MODELS)) {
      Files files = files_of(folder);
      std::erase_if(files, [](const auto& file) { return file->name().starts_with("reference"); });
      models.push_back(std::move(files));
    }
    // The order of a folder differs between machines; an input must not.
    std::sort(models.begin(), models.end(),
              [](const Files& a, const Files& b) { return a[0]->text() < b[0]->text(); });
    return SoundFolders(std::move(models), {"config.json"});
  }();
  return folders;
}

}  // namespace

std::vector<std::string> seeds() { return sound().seeds(); }

void use(Bytes input) {
  const auto weights = open_weights(sound().with(input));
  if (weights->type() != ModelType::kLanguageModel) return;
  const auto device = open_cpu_device({.n_threads = 1});
  Generator generator(*device, *weights, Compute::kF32, {.n_ctx = 8});
  generator.evaluate(std::vector<int32_t>{1, 2, 3}, [](uint32_t, uint32_t, const float*) {});
}

}  // namespace vesper::fuzz

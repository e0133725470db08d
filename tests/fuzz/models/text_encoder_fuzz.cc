// The JSON files of a text encoder: config.json, modules.json and the files that they name.
#include "embedder/embedder.h"
#include "llm/cpu/cpu_device.h"
#include "tests/embedder/tiny_bert.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temporary_folder.h"

namespace vesper::fuzz {
namespace {

Files bert(bool as_xlm_roberta) {
  const TemporaryFolder folder;
  TinyBert(as_xlm_roberta).write(folder.path());
  Files files = files_of(folder.path());
  const auto add = [&](const char* name, std::string_view text) {
    files.push_back(
        std::make_shared<const MappedFile>(name, std::vector<uint8_t>(text.begin(), text.end())));
  };
  add("sentence_bert_config.json", R"({"max_seq_length": 16, "do_lower_case": false})");
  add("config_sentence_transformers.json",
      R"({"prompts": {"query": "query: "}, "default_prompt_name": "query"})");
  add("tokenizer_config.json", R"({"model_max_length": 16, "do_lower_case": true})");
  return files;
}

const SoundFolders& sound() {
  static const SoundFolders folders({bert(false), bert(true)}, {".json", "vocab.txt"});
  return folders;
}

}  // namespace

std::vector<std::string> seeds() { return sound().seeds(); }

void use(Bytes input) {
  const ModelFiles files = sound().with(input);
  read_embedding_settings(files);
  const auto weights = open_weights(files);
  if (weights->type() != ModelType::kTextEncoder) return;
  Embedder embedder(*weights, open_cpu_device({.n_threads = 1}), Compute::kF32,
                    {.batch_tokens = 16});
  const std::vector<int32_t> ids = {2, 5, 3};
  const std::span<const int32_t> text(ids);
  std::vector<float> vector(embedder.dimensions());
  embedder.embed({&text, 1}, vector.data());
}

}  // namespace vesper::fuzz

// How a model pools a text's rows to one vector, from the files that sentence-transformers puts
// beside the weights.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/files/gguf_file.h"
#include "llm/files/mapped_file.h"

namespace vesper {

enum class Pooling : uint32_t { kMean, kFirst, kLast };
// "mean", "cls" (the first token) or "last". Throws Error(kUsage) listing the names.
Pooling parse_pooling(std::string_view name);

struct EmbeddingSettings {
  Pooling pooling = Pooling::kMean;
  bool normalize = true;           // to L2 norm 1
  uint32_t max_tokens = 0;         // per text, special tokens included; 0: the model's limit
  std::vector<std::string> dense;  // folders of Dense modules after the pooling, in order
  std::map<std::string, std::string> prompts;  // prefixes of texts, by name: "query", "passage"
  std::string default_prompt;                  // name of the prefix of every text; may be empty
};

// Reads modules.json and the files it names, unless the model is a reranker,
// sentence_bert_config.json, config_sentence_transformers.json and tokenizer_config.json, if
// present. Throws Error(kModel), also for an unknown module, naming it.
EmbeddingSettings read_embedding_settings(const ModelFiles& files, bool is_reranker = false);

// llama.cpp's number of a pooling, in the metadata of GGUF files.
uint32_t gguf_pooling_type(Pooling pooling);
// The pooling of GGUF metadata, if present. Throws Error(kModel) for an unknown kind.
std::optional<Pooling> read_gguf_pooling(const std::string& name, const Gguf& gguf);

}  // namespace vesper

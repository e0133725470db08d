// How a model's files say that a text's rows become one vector: the files that
// sentence-transformers puts beside the weights.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "llm/files/gguf_file.h"
#include "llm/files/mapped_file.h"

namespace vesper {

enum class Pooling : uint32_t { kMean, kFirst, kLast };
// "mean", "cls" (the first token) or "last". Throws Error(kUsage) listing the names.
Pooling parse_pooling(std::string_view name);

struct EmbeddingSettings {
  Pooling pooling = Pooling::kMean;
  bool normalize = true;    // to length 1
  uint32_t max_tokens = 0;  // of a text with its special tokens; 0: as many as the model can take
  std::map<std::string, std::string> prompts;  // put before texts, by name: "query", "passage"
  std::string default_prompt;  // the name of the one that is always put before; may be empty
};

// Reads modules.json with what it names, sentence_bert_config.json,
// config_sentence_transformers.json and tokenizer_config.json, each where there is one. Throws
// Error(kModel), also for a module that the engine does not know, naming it.
EmbeddingSettings read_embedding_settings(const ModelFiles& files);

// What GGUF metadata say of pooling, if they do. Throws Error(kModel) for a kind that the engine
// does not know.
std::optional<Pooling> read_gguf_pooling(const std::string& name, const Gguf& gguf);

}  // namespace vesper

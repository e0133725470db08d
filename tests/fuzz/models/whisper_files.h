// The use of a Whisper model that has been opened.
#pragma once

#include "llm/weights/weight_provider.h"
#include "tests/fuzz/fuzz.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::fuzz {

// What later code does not check again.
inline void use_whisper(const WeightProvider& weights) {
  for (const TensorView& tensor : weights.tensors()) read_f32(tensor);
  if (weights.family() != "whisper") return;
  const ModelConfig& config = weights.config(ModelType::kWhisper);
  require(weights.vocabulary().size() <= config.n_vocab, "more words than ids");
  for (const int32_t id : config.suppress_tokens) {
    require(id >= 0 && static_cast<uint32_t>(id) < config.n_vocab, "an id beyond the vocabulary");
  }
}

}  // namespace vesper::fuzz

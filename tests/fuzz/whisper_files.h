// A Whisper model that is as small as possible, so that most of its bytes are structure, and the
// use of one that has been opened.
#pragma once

#include "llm/weights/weight_provider.h"
#include "tests/fuzz/fuzz.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::fuzz {

inline const test::TinyWhisper& smallest_whisper() {
  static const test::TinyWhisper model({.seed = 5,
                                        .n_mels = 1,
                                        .n_audio_ctx = 2,
                                        .n_text_ctx = 2,
                                        .n_vocab = 12,
                                        .d_model = 2,
                                        .n_heads = 1,
                                        .n_encoder_layers = 1,
                                        .n_decoder_layers = 1,
                                        .d_ffn = 2});
  return model;
}

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

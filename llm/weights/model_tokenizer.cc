#include "llm/weights/model_tokenizer.h"

namespace vesper {

std::unique_ptr<TextTokenizer> open_text_tokenizer(const WeightProvider& weights) {
  return weights.gguf() != nullptr ? open_text_tokenizer(weights.path(), *weights.gguf())
                                   : open_text_tokenizer(model_folder(weights.path()));
}

}  // namespace vesper

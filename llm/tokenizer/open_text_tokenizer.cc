#include "error/error.h"
#include "llm/tokenizer/gguf_tokenizer.h"
#include "llm/tokenizer/text_tokenizer.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

std::unique_ptr<TextTokenizer> open_text_tokenizer(const WeightProvider& weights) {
  const std::string name = weights.path().string();
  if (weights.gguf() == nullptr) {
    throw Error(ErrorKind::kModel, name +
                                       ": expected a tokenizer in GGUF metadata, found a model "
                                       "in format " +
                                       std::string(weights.format()));
  }
  try {
    return std::make_unique<TextTokenizer>(read_gguf_tokenizer(name, *weights.gguf()));
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.starts_with(name)) throw;
    throw Error(error.kind(), name + ": " + message);
  }
}

}  // namespace vesper

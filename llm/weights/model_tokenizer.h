// The tokenizer of an open language model or text encoder.
#pragma once

#include <memory>

#include "llm/tokenizer/text_tokenizer.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// From the GGUF metadata, or from the files beside the weights. Throws Error(kModel) if there is no
// tokenizer, or an unknown one.
std::unique_ptr<TextTokenizer> open_text_tokenizer(const WeightProvider& weights);

}  // namespace vesper

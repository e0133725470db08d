// How file formats spell the tensors of language models.
#pragma once

#include "llm/weights/tensor_naming.h"

namespace vesper {

extern const TensorNaming kGgufLanguageModelNaming;
extern const TensorNaming kHuggingFaceLanguageModelNaming;
// Where blocks have norms behind them as well, and one name means another norm (Gemma 2 and 3).
extern const TensorNaming kHuggingFacePostNormNaming;

}  // namespace vesper

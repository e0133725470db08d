// How file formats spell the tensors of models that encode text.
#pragma once

#include "llm/weights/tensor_naming.h"

namespace vesper {

extern const TensorNaming kHuggingFaceBertNaming;
extern const TensorNaming kHuggingFaceRobertaNaming;  // RoBERTa, XLM-R
extern const TensorNaming kHuggingFaceJinaBertNaming;
extern const TensorNaming kHuggingFaceNewNaming;  // Alibaba's GTE from 2024 on, model_type "new"
extern const TensorNaming kHuggingFaceNomicBertNaming;
extern const TensorNaming kHuggingFaceModernBertNaming;
extern const TensorNaming kGgufTextEncoderNaming;
extern const TensorNaming kGgufModernBertNaming;

}  // namespace vesper

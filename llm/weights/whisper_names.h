// How each file format spells the tensors of a Whisper model.
#pragma once

#include "llm/weights/tensor_naming.h"

namespace vesper {

extern const TensorNaming kCTranslate2WhisperNaming;
extern const TensorNaming kGgmlWhisperNaming;
extern const TensorNaming kHuggingFaceWhisperNaming;

}  // namespace vesper

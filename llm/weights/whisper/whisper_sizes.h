// The sizes of a Whisper model of any file format.
#pragma once

#include "llm/weights/weight_provider.h"

namespace vesper {

// Fills sizes of contents.config that are zero from the tensor shapes (all but n_heads). `where`
// names the file in messages. Throws Error(kModel) if a stated size differs from the tensors', or
// exceeds the limits of llm/weights/model_check.h.
void complete_whisper_sizes(const std::string& where, ModelContents& contents);

}  // namespace vesper

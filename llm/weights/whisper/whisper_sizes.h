// The sizes of a Whisper model, whatever file format it came from.
#pragma once

#include "llm/weights/weight_provider.h"

namespace vesper {

// Fills the sizes that contents.config has at zero from the tensors' shapes (all but n_heads).
// `where` names the file in messages. Throws Error(kModel) if a size that the file states is not
// the tensors', or is beyond the limits of llm/weights/model_check.h.
void complete_whisper_sizes(const std::string& where, ModelContents& contents);

}  // namespace vesper

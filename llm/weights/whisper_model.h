// What makes a set of tensors a sound Whisper model, whatever file format they came from.
#pragma once

#include "llm/weights/weight_provider.h"

namespace vesper {

// Fills what `contents.whisper` leaves at zero from the tensors' shapes (all but n_*_heads), then
// checks it against every tensor and against the limits that later code relies on. `where` names
// the file in messages. Throws Error(kModel).
void complete_whisper(const std::string& where, ModelContents& contents);

}  // namespace vesper

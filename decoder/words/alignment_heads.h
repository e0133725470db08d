// Which heads of a Whisper decoder's cross-attention follow the speech as it is written down.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "llm/weights/weight_provider.h"

namespace vesper {

// [layer, head] by rising layer and head, none twice: those that the model's file names; else those
// that openai-whisper lists for the published model of these sizes; else, as it does for a model
// that it does not know, all heads of the upper half of the layers.
std::vector<std::array<uint32_t, 2>> alignment_heads(const ModelConfig& model);

}  // namespace vesper

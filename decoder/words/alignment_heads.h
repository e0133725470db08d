// The cross-attention heads of a Whisper decoder that follow the speech.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "llm/weights/weight_provider.h"

namespace vesper {

// [layer, head], ascending and unique: those in the model's file; otherwise openai-whisper's list
// for the published model of these sizes; otherwise, as in openai-whisper, all heads of the upper
// half of the layers.
std::vector<std::array<uint32_t, 2>> alignment_heads(const ModelConfig& model);

}  // namespace vesper

// Whether a model's configuration is sound and its tensors are those of it.
#pragma once

#include <string>

#include "llm/weights/weight_provider.h"

namespace vesper {

// Far above every published model, low enough that sizes computed from them fit 64 bits with room.
inline constexpr uint64_t kMostVocabulary = 4'000'000;
inline constexpr uint64_t kMostPositions = 100'000'000;
inline constexpr uint64_t kMostWidth = 262'144;
inline constexpr uint64_t kMostHeadDim = 1024;
inline constexpr uint64_t kMostLayers = 1024;
inline constexpr uint64_t kMostMels = 256;

inline constexpr uint32_t kMelFilterBins = 201;  // of Whisper's 400-point transform

// Checks contents.config against itself, against these limits and against every tensor that the
// model needs, so that no later code has to; called once, when the files have been read. `where`
// names them in messages. What is wrong becomes config.problem; of Whisper it is thrown as
// Error(kModel): its files hold nothing else to look at.
void check_model(const std::string& where, ModelContents& contents);

// The tensor of that canonical name. Throws Error(kModel) naming `where` and the tensor if it is
// absent, or in a format without a reader.
const TensorView& require_tensor(const std::string& where, const ModelContents& contents,
                                 const std::string& name);

}  // namespace vesper

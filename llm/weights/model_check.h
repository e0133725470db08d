// Checks a model's configuration and tensors.
#pragma once

#include <string>

#include "llm/weights/weight_provider.h"

namespace vesper {

// Far above every published model, and low enough that computed sizes fit 64 bits.
inline constexpr uint64_t kMostVocabulary = 4'000'000;
inline constexpr uint64_t kMostPositions = 100'000'000;
inline constexpr uint64_t kMostWidth = 262'144;
inline constexpr uint64_t kMostHeadDim = 1024;
inline constexpr uint64_t kMostLayers = 1024;
inline constexpr uint64_t kMostMels = 256;

inline constexpr uint32_t kMelFilterBins = 201;  // of Whisper's 400-point DFT

// Checks contents.config for consistency, against these limits, and against every tensor that the
// model needs, so that later code need not check. Called once, after reading the files. `where`
// names them in messages. An error is stored in config.problem; for Whisper it is thrown as
// Error(kModel).
void check_model(const std::string& where, ModelContents& contents);

// The tensor `name` (canonical). Throws Error(kModel) naming `where` and the tensor if it is
// absent, or its format has no reader.
const TensorView& require_tensor(const std::string& where, const ModelContents& contents,
                                 const std::string& name);

}  // namespace vesper

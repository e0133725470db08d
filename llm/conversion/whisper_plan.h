// Conversion of Whisper to whisper.cpp's ggml files, which are read by its programs and by
// llm/weights/whisper/ggml_reader.
#pragma once

#include "llm/conversion/conversion.h"

namespace vesper {

// `mel_filters` [n_mels, 201] are used if the model has none. All matrices have the mixture's main
// format, because the format has one for all. Throws Error(kModel) if the rows of a matrix do not
// fit its blocks, or the model has an output matrix of its own.
ConversionPlan plan_whisper(const WeightProvider& weights, const Mixture& mixture,
                            const std::vector<float>& mel_filters);

}  // namespace vesper

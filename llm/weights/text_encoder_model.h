// Models that encode text: which families there are, how their config.json states them, and what
// makes a set of tensors a sound one.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "llm/weights/tensor_naming.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// If the family (config.json's model_type) is one of a text encoder: gives the tensors of
// `contents`, which are as Hugging Face's transformers names them, canonical names, and takes the
// facts from config.json (`config`, called `name` in messages). Throws Error(kModel) if a fact has
// the wrong type.
void read_hugging_face_text_encoder(const std::string& name, const nlohmann::json& config,
                                    ModelContents& contents);

// The same for GGUF, whose tensors have ggml's names and whose metadata hold the facts, if
// general.architecture is one of a text encoder.
void read_gguf_text_encoder(const std::string& name, const Gguf& gguf, ModelContents& contents);

// Gives the tensors their canonical names and cuts fused ones into equal parts.
void name_text_encoder_tensors(const TensorNaming& naming, ModelContents& contents);

// Checks the facts against each other, against the limits that later code relies on and against
// every tensor that the model needs. Throws Error(kModel).
void check_text_encoder(const WeightProvider& provider);

}  // namespace vesper

// Language models in files: which families there are, how GGUF and config.json state them, and what
// makes a set of tensors a sound one.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "llm/weights/weight_provider.h"

namespace vesper {

// If the family (config.json's model_type) is one of a language model: gives the tensors of
// `contents`, which are as Hugging Face's transformers names them, canonical names, and takes the
// facts from config.json (`config`, called `name` in messages). Throws Error(kModel) if a fact has
// the wrong type.
void read_hugging_face_language_model(const std::string& name, const nlohmann::json& config,
                                      ModelContents& contents);

// The same for GGUF, whose tensors have ggml's names and whose metadata hold the facts, if
// general.architecture is one of a language model.
void read_gguf_language_model(const std::string& name, const Gguf& gguf, ModelContents& contents);

// Checks the facts against each other, against the limits that later code relies on and against
// every tensor that the model needs. Throws Error(kModel).
void check_language_model(const WeightProvider& provider);

}  // namespace vesper

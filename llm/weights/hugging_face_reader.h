// A model as Hugging Face's transformers saves it: safetensors with JSON files beside them.
#pragma once

#include "llm/weights/safetensors.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// `safetensors`: the tensors of `files`. The family is config.json's model_type; a Whisper model
// gets canonical names and its facts (config.json, generation_config.json, vocab.json or
// tokenizer.json, preprocessor_config.json), a text encoder its own
// (llm/weights/text_encoder_model.h), any other keeps the file's names. Throws Error(kModel).
ModelContents read_hugging_face(const ModelFiles& files, Safetensors safetensors);

}  // namespace vesper

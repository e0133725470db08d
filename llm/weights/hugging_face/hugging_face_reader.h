// A model as Hugging Face's transformers saves it: safetensors with JSON files beside them.
#pragma once

#include "llm/weights/hugging_face/safetensors.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// `safetensors`: the tensors of `files`. The family is config.json's model_type; one that the
// engine knows gets its config and canonical names, any other keeps the file's names. Whisper's
// facts are in config.json, generation_config.json, preprocessor_config.json, and vocab.json or
// tokenizer.json. Throws Error(kModel).
ModelContents read_hugging_face(const ModelFiles& files, Safetensors safetensors);

}  // namespace vesper

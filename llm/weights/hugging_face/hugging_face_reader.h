// A model saved by Hugging Face's transformers: safetensors and JSON files.
#pragma once

#include "llm/weights/hugging_face/safetensors.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// `safetensors` has the tensors of `files`. The family is config.json's model_type. A known family
// gets a configuration and canonical names; otherwise tensors keep the file's names. Whisper uses
// config.json, generation_config.json, preprocessor_config.json, and vocab.json or tokenizer.json.
// Throws Error(kModel).
ModelContents read_hugging_face(const ModelFiles& files, Safetensors safetensors);

}  // namespace vesper

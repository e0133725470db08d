// The facts of text encoders and language models in GGUF.
#pragma once

#include "llm/files/gguf_metadata.h"
#include "llm/weights/model_families.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// Reads contents.config from the metadata, as ggml's documentation of GGUF and llama.cpp's
// converter have them, and gives the tensors, which have ggml's names, canonical ones. Throws
// Error(kModel) if a fact has the wrong type.
void read_gguf_model(const GgufMetadata& metadata, const ModelFamily& family,
                     ModelContents& contents);

}  // namespace vesper

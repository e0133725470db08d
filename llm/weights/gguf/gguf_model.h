// Configurations of text encoders and language models in GGUF.
#pragma once

#include "llm/files/gguf_metadata.h"
#include "llm/weights/model_families.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// Reads contents.config from the metadata, as defined by ggml's GGUF documentation and llama.cpp's
// converter, and assigns canonical tensor names. Throws Error(kModel) if a value has the wrong
// type.
void read_gguf_model(const GgufMetadata& metadata, const ModelFamily& family,
                     ModelContents& contents);

}  // namespace vesper

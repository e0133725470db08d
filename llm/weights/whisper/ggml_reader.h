// whisper.cpp's ggml `.bin`: one file with hyper-parameters, mel filters, vocabulary and tensors.
#pragma once

#include <memory>

#include "llm/weights/weight_provider.h"

namespace vesper {

// Whether the bytes begin with ggml's magic number.
bool is_ggml(const MappedFile& file);

// Throws Error(kModel).
ModelContents read_ggml(std::shared_ptr<const MappedFile> file);

}  // namespace vesper

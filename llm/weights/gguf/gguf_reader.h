// GGUF models, as written for llama.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llm/files/gguf_file.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// Reads `file` and its split files in `files`. Tensors keep the file's names; the family is
// general.architecture. Throws Error(kModel), also for any of Gguf::problems.
ModelContents read_gguf(const ModelFiles& files, std::shared_ptr<const MappedFile> file);
ModelContents read_gguf(std::shared_ptr<const Gguf> gguf);

}  // namespace vesper

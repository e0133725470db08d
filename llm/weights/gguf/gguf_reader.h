// GGUF as the engine takes it: what llama.cpp and its kin read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llm/files/gguf_file.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// `file` and the others that it was split into, which stand beside it. Tensors keep the file's
// names; the family is general.architecture. Throws Error(kModel), so for any of Gguf::problems.
ModelContents read_gguf(const ModelFiles& files, std::shared_ptr<const MappedFile> file);
ModelContents read_gguf(std::shared_ptr<const Gguf> gguf);

}  // namespace vesper

// GGUF as the engine takes it: what llama.cpp and its kin read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llm/weights/gguf_file.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// `file` and the others that it was split into, which stand beside it. Tensors keep the file's
// names; the family is general.architecture. Throws Error(kModel), so for any of Gguf::problems.
ModelContents read_gguf(const ModelFiles& files, std::shared_ptr<const MappedFile> file);

// The tokens as raw bytes by id: byte-level spelling (tokenizer.ggml.model "gpt2") and
// SentencePiece's
// ("llama": U+2581 for a space, <0x0A> for a byte) undone, any other as it is. Special tokens keep
// their spelling. Empty if the file has no tokens.
std::vector<std::string> gguf_vocabulary(const Gguf& gguf);

}  // namespace vesper

// Tokenizers from GGUF metadata (tokenizer.ggml.*), as llama.cpp's converter writes it.
#pragma once

#include "llm/files/gguf_file.h"
#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// Throws Error(kModel), beginning with `name`, if there is none, it is damaged, or its kind or its
// pre-tokenizer is not known.
TokenizerParts read_gguf_tokenizer(const std::string& name, const Gguf& gguf);

}  // namespace vesper

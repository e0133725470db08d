// Tokenizers in GGUF metadata (tokenizer.ggml.*), as written by llama.cpp's converter.
#pragma once

#include "llm/files/gguf_file.h"
#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// Throws Error(kModel), beginning with `name`, if it is absent or damaged, or its kind or
// pre-tokenizer is unknown.
TokenizerParts read_gguf_tokenizer(const std::string& name, const Gguf& gguf);

}  // namespace vesper

// Opens the tokenizer of a model's files.
#pragma once

#include <filesystem>
#include <memory>

#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

class Gguf;
class ModelFiles;

// The tokenizer of a folder: tokenizer.json, tokenizer.model or vocab.txt, with the special tokens
// of tokenizer_config.json and generation_config.json. Throws Error(kModel) if there is none, or an
// unknown one.
std::unique_ptr<TextTokenizer> open_text_tokenizer(const ModelFiles& files);
// The same from GGUF metadata; `path` is the file in messages.
std::unique_ptr<TextTokenizer> open_text_tokenizer(const std::filesystem::path& path,
                                                   const Gguf& gguf);
// The same for a path to either; weights need not be readable.
std::unique_ptr<TextTokenizer> open_text_tokenizer(const std::filesystem::path& path);

}  // namespace vesper

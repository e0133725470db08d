// Opens the tokenizer that lies in a model's files.
#pragma once

#include <filesystem>
#include <memory>

#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

class Gguf;
class ModelFiles;

// The tokenizer in a folder of files: tokenizer.json, tokenizer.model or vocab.txt, and the special
// tokens of tokenizer_config.json and generation_config.json. Throws Error(kModel) if there is
// none, or one that the engine does not know.
std::unique_ptr<TextTokenizer> open_text_tokenizer(const ModelFiles& files);
// The same from the metadata of a GGUF file; `path` stands for it in messages.
std::unique_ptr<TextTokenizer> open_text_tokenizer(const std::filesystem::path& path,
                                                   const Gguf& gguf);
// The same for a path to either, whose weights need not be readable.
std::unique_ptr<TextTokenizer> open_text_tokenizer(const std::filesystem::path& path);

}  // namespace vesper

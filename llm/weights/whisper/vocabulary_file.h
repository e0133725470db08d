// Vocabularies in files beside the weights, as raw bytes by token id.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llm/files/mapped_file.h"

namespace vesper {

// CTranslate2: `vocabulary.json` (a list) or `vocabulary.txt` (one token per line), by token id.
// Empty if the folder has neither. Throws Error(kModel).
std::vector<std::string> read_ctranslate2_vocabulary(const ModelFiles& files);

// Hugging Face: `vocab.json` with `added_tokens.json`, otherwise `tokenizer.json`. Ids without an
// entry are empty strings. Empty if the folder has neither. Throws Error(kModel), also if an id is
// not below `n_vocab`.
std::vector<std::string> read_hugging_face_vocabulary(const ModelFiles& files, uint32_t n_vocab);

}  // namespace vesper

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

// OpenAI: `multilingual.tiktoken`, or `gpt2.tiktoken` of English models (one token in base64 and
// its id per line). Special tokens are not in them. Empty if the folder lacks the model's. Throws
// Error(kModel).
std::vector<std::string> read_tiktoken_vocabulary(const ModelFiles& files, uint32_t n_vocab);

// Hugging Face: `vocab.json` with `added_tokens.json`, otherwise `tokenizer.json`. Ids without an
// entry are empty strings. Empty if the folder has neither. Throws Error(kModel), also if an id is
// not below `n_vocab`.
std::vector<std::string> read_hugging_face_vocabulary(const ModelFiles& files, uint32_t n_vocab);

}  // namespace vesper

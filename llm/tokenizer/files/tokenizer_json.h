// Hugging Face's tokenizer.json, in general: what its steps mean is in normalizations.h,
// text_splitters.h and the three models.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// `name` stands for the file in messages. Throws Error(kModel), also for a step that is not known,
// naming it.
TokenizerParts read_tokenizer_json(const std::string& name, const nlohmann::json& root);

// What it is made of; each adds to the parts.
void read_json_normalizer(const std::string& name, const nlohmann::json& step,
                          TokenizerParts& parts);
void read_json_pre_tokenizer(const std::string& name, const nlohmann::json& step,
                             TokenizerParts& parts);
// Its vocabulary too.
void read_json_model(const std::string& name, const nlohmann::json& model, TokenizerParts& parts);
// Needs the vocabulary: what each token adds to a text.
void read_json_decoder(const std::string& name, const nlohmann::json* decoder,
                       TokenizerParts& parts);

// A token id below kMaxVocabulary, or an error.
int32_t json_token_id(const std::string& name, const nlohmann::json& value);

}  // namespace vesper

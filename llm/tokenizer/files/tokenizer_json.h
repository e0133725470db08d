// Reads Hugging Face's tokenizer.json. normalizations.h, text_splitters.h and the models implement
// its steps.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// `name` is the file in messages. Throws Error(kModel), also for an unknown step, naming it.
TokenizerParts read_tokenizer_json(const std::string& name, const nlohmann::json& root);

// The sections of the file; each adds to the parts.
void read_json_normalizer(const std::string& name, const nlohmann::json& step,
                          TokenizerParts& parts);
void read_json_pre_tokenizer(const std::string& name, const nlohmann::json& step,
                             TokenizerParts& parts);
// Including the vocabulary.
void read_json_model(const std::string& name, const nlohmann::json& model, TokenizerParts& parts);
// Needs the vocabulary: the text of each token.
void read_json_decoder(const std::string& name, const nlohmann::json* decoder,
                       TokenizerParts& parts);

// An added token without its id.
AddedToken read_json_added_token(const std::string& name, const nlohmann::json& entry);
// A token id below kMaxVocabulary, otherwise an error.
int32_t json_token_id(const std::string& name, const nlohmann::json& value);

}  // namespace vesper

// Byte-level BPE as it was published before there was a tokenizer.json: vocab.json with the ids of
// the tokens, merges.txt with a merge a line, and the rest in the code of a class, whose name
// tokenizer_config.json has.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// `name` stands for the folder in messages, `merges` are the lines of merges.txt, `config` is
// tokenizer_config.json. Special tokens are left to who reads that, but for those that the class
// itself has. Throws Error(kModel), also for a class that is not known, naming it.
TokenizerParts read_vocabulary_and_merges(const std::string& name, const nlohmann::json& vocabulary,
                                          const std::vector<std::string_view>& merges,
                                          const nlohmann::json& config);

}  // namespace vesper

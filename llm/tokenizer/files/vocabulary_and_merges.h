// Byte-level BPE without a tokenizer.json: vocab.json with token ids, merges.txt with one merge per
// line. The rest depends on the tokenizer class in tokenizer_config.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// `name` is the folder in messages, `merges` are the lines of merges.txt, `config` is
// tokenizer_config.json. Sets only the special tokens of the class; the caller reads the others.
// Throws Error(kModel), also for an unknown class, naming it.
TokenizerParts read_vocabulary_and_merges(const std::string& name, const nlohmann::json& vocabulary,
                                          const std::vector<std::string_view>& merges,
                                          const nlohmann::json& config);

}  // namespace vesper

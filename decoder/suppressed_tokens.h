// Tokens that are never sampled: lists, and tokens with certain text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decoder/decoding_settings.h"
#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// The ids that the settings suppress. `of_model` are those of the model's file; ids from
// `n_text_tokens` on have no text. Throws Error(kUsage) for an invalid pattern.
std::vector<int32_t> suppressed_tokens(const DecodingSettings& settings,
                                       const TextTokenizer& tokenizer, int32_t n_text_tokens,
                                       std::span<const int32_t> of_model);

}  // namespace vesper

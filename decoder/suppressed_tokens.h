// Which tokens are never chosen: lists, and what their text says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decoder/decoding_settings.h"
#include "llm/tokenizer/tokenizer.h"

namespace vesper {

// The ids that the settings keep out. `of_model` are those of the model's file; ids from
// `n_text_tokens` on stand for no text. Throws Error(kUsage) for a pattern that is none.
std::vector<int32_t> suppressed_tokens(const DecodingSettings& settings, const Tokenizer& tokenizer,
                                       int32_t n_text_tokens, std::span<const int32_t> of_model);

}  // namespace vesper

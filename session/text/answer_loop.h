// Detects an answer that has come into a loop, from which a model does not return: each repetition
// makes the next one more probable.
#pragma once

#include <cstdint>
#include <span>

#include "llm/generation/token_loops.h"
#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// A loop has at least kLoopRounds complete periods. A period of words (letters, spaces and the
// punctuation of sentences) loops after kWordLoopTokens: a refrain or an emphasis is shorter. Other
// periods, and tokens without a tokenizer, may be meant: rows of a table, elements of a JSON array,
// lines of code. They loop after kRowLoopTokens, which are 85 rows of 12 tokens.
inline constexpr size_t kLoopRounds = 8;
inline constexpr size_t kWordLoopTokens = 256;
inline constexpr size_t kRowLoopTokens = 1024;

// The loop that the tokens of an answer end with; a period of 0: none. `tokenizer` may be null.
TokenLoop answer_loop(std::span<const int32_t> tokens, const TextTokenizer* tokenizer);

}  // namespace vesper

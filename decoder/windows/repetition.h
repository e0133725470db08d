// Loops: a decoder that has lost the speech says the same thing over and over.
//
// Two measures: how well the text deflates, as the reference has it, which also fires on a text
// that merely repeats itself; and whether its tokens are periodic, which only a loop is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "decoder/windows/window_segments.h"

namespace vesper {

// Bytes of the text over its deflated bytes, as openai-whisper's utils.py has it; 0 of no text.
double compression_ratio(const std::string& text);

// Tokens [begin, end) are those `period` before them, from begin + period on.
struct TokenLoop {
  size_t begin = 0, end = 0;
  size_t period = 0;
  size_t n_rounds() const { return (end - begin) / period; }
};

// Somebody may say a sentence three times, and "no, no, no, no" at any time.
inline constexpr size_t kLeastRounds = 4, kLeastLoopTokens = 20;

// The longest stretch of `tokens` (text alone, without timestamps) that goes round at least
// `least_rounds` times and has at least `least_tokens` tokens; of equally long ones that of the
// shortest period. None if there is no such stretch.
std::optional<TokenLoop> find_loop(std::span<const int32_t> tokens,
                                   size_t least_rounds = kLeastRounds,
                                   size_t least_tokens = kLeastLoopTokens);

// Whether three quarters of the tokens or more go round, three times or more often: what people do
// say, but not where it is doubtful that anybody speaks.
bool is_one_loop(std::span<const int32_t> tokens);

// Takes from a window's segments all those that have tokens of the second or a later round of the
// loop in their text, if there is one, and gives them back. `eot` is the first id that is no text.
std::vector<WindowSegment> take_loop(std::vector<WindowSegment>& segments, int32_t eot,
                                     size_t least_rounds = kLeastRounds,
                                     size_t least_tokens = kLeastLoopTokens);

}  // namespace vesper

// Loops: a decoder that loses the speech repeats the same text.
//
// Two measures: the compression ratio, as in the reference, which text with repetitions also
// reaches; and periodic tokens, which only loops have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "decoder/windows/window_segments.h"

namespace vesper {

// Bytes of the text / deflated bytes, as in openai-whisper's utils.py; 0 for empty text.
double compression_ratio(const std::string& text);

// Tokens [begin, end); from begin + period on each equals the one `period` before it.
struct TokenLoop {
  size_t begin = 0, end = 0;
  size_t period = 0;
  size_t n_rounds() const { return (end - begin) / period; }
};

// Speakers may repeat a sentence three times, and "no, no, no, no" is possible.
inline constexpr size_t kLeastRounds = 4, kLeastLoopTokens = 20;

// The longest run of `tokens` (text only, no timestamps) with at least `least_rounds` repetitions
// and `least_tokens` tokens; of equal lengths the one with the shortest period. Empty if there is
// none.
std::optional<TokenLoop> find_loop(std::span<const int32_t> tokens,
                                   size_t least_rounds = kLeastRounds,
                                   size_t least_tokens = kLeastLoopTokens);

// Whether at least three quarters of the tokens are a run with three or more repetitions. Speech
// may be like this, so it counts only if speech is in doubt.
bool is_one_loop(std::span<const int32_t> tokens);

// Removes from a window's segments those with tokens of the second or a later round of a loop, and
// returns them. `eot` is the first id that is not text.
std::vector<WindowSegment> take_loop(std::vector<WindowSegment>& segments, int32_t eot,
                                     size_t least_rounds = kLeastRounds,
                                     size_t least_tokens = kLeastLoopTokens);

}  // namespace vesper

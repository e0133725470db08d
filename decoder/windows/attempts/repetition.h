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

#include "decoder/windows/window_policy.h"
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

// The longest run of `tokens` (text alone, without timestamps) that comes `policy.loop_rounds`
// times or more and has `policy.loop_tokens` tokens or more; of equally long ones that of the
// shortest period. None if there is no such run.
std::optional<TokenLoop> find_loop(std::span<const int32_t> tokens,
                                   const WindowPolicy& policy = {});

// Whether `policy.one_loop_share` of the tokens or more are a run that comes
// `policy.one_loop_rounds` times or more: people say such texts, but not where speech is in doubt.
bool is_one_loop(std::span<const int32_t> tokens, const WindowPolicy& policy = {});

// Takes from a window's segments all those that have tokens of the second or a later round of the
// loop in their text, if there is one, and returns them. `eot` is the first id that is no text.
std::vector<WindowSegment> take_loop(std::vector<WindowSegment>& segments, int32_t eot,
                                     const WindowPolicy& policy = {});

}  // namespace vesper

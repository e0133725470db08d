// Two measures of text that repeats itself: the compression ratio, as in the reference, and
// periodic tokens, which also short text has.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "decoder/windows/window_policy.h"

namespace vesper {

// Bytes of the text / deflated bytes, as in openai-whisper's utils.py; 0 for empty text.
double compression_ratio(const std::string& text);

// Whether `policy.one_loop_share` of the tokens or more are a run that comes
// `policy.one_loop_rounds` times or more. People say such texts, but they are inventions where
// speech is in doubt.
bool is_one_loop(std::span<const int32_t> tokens, const WindowPolicy& policy = {});

}  // namespace vesper

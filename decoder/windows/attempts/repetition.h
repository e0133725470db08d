// Two measures of repetition in text: the compression ratio, as in the reference, and periodic
// tokens, which also work for short text.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "decoder/windows/window_policy.h"

namespace vesper {

// Bytes of the text / deflated bytes, as in openai-whisper's utils.py; 0 for empty text.
double compression_ratio(const std::string& text);

// Whether at least `policy.one_loop_share` of the tokens are a run that occurs at least
// `policy.one_loop_rounds` times. Speech may have such text, but it is invented if speech is in
// doubt.
bool is_one_loop(std::span<const int32_t> tokens, const WindowPolicy& policy = {});

}  // namespace vesper

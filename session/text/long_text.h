// Texts longer than the context, by map-reduce.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "session/text/text_session.h"

namespace vesper {

// Answers each part of a text that is too long for the context, then the joined answers, until
// these fit. `prompt_of` makes the prompt for a part. Returns the prompt for the last answers, or
// for the text if it fits. The answer to a part has at most `options.max_tokens`, or a quarter of
// the context. `is_cancelled` is called after every few steps, and ends it with Error(kStopped).
// Throws Error(kInput) if the context is too small, or the answers are as long as the text.
std::vector<int32_t> map_reduced_prompt(
    TextSession& session, const TextOptions& options, const std::string& text,
    const std::function<std::vector<int32_t>(const std::string& part)>& prompt_of,
    const std::function<bool()>& is_cancelled = {});

// The prompt for an instruction about a text of any length: the whole text if it leaves room for an
// answer, otherwise a map_reduced_prompt.
std::vector<int32_t> long_prompt(TextSession& session, const TextOptions& options,
                                 const std::string& instruction, const std::string& text,
                                 const InstructionFormat& format = {},
                                 const std::function<bool()>& is_cancelled = {});

}  // namespace vesper

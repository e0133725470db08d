// Texts that are longer than the context, by map-reduce.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "session/text_session.h"

namespace vesper {

// Asks about each part of a text that has no room in the context, and again about the answers
// together, until these fit. `prompt_of` makes the prompt about a part. Returns the prompt about
// the last answers, or about the text itself where it fits. An answer to a part has at most
// `options.max_tokens`, or a quarter of the context. Throws Error(kInput) if the context has no
// room for that, or the answers are as long as the text.
std::vector<int32_t> map_reduced_prompt(
    TextSession& session, const TextOptions& options, const std::string& text,
    const std::function<std::vector<int32_t>(const std::string& part)>& prompt_of);

}  // namespace vesper

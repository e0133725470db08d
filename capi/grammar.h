// A grammar as C callers write it.
#pragma once

#include <optional>

#include "llm/grammar/grammar_options.h"

namespace vesper::capi {

// The grammar of `notation` (vesper_grammar_notation) and `text`, from the text `after` on, which
// may be null; none for VESPER_GRAMMAR_NONE. Throws Error(kUsage) for an unknown notation, or a
// text without a notation; ArgumentError for a notation without its text.
std::optional<GrammarOptions> read_grammar(int notation, const char* text,
                                           const char* after = nullptr);

}  // namespace vesper::capi

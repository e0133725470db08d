// Cuts text into the pieces within which a byte-level BPE merges, by the pattern that the
// tokenizer was trained with.
#pragma once

#include <functional>
#include <string_view>

#include "llm/tokenizer/pattern.h"

namespace vesper {

// GPT-2's pattern, which Whisper's tokenizers use too: English contractions, runs of letters, of
// digits and of other signs, each with the space before it, and white space.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Safe to use from several threads at once.
class PreTokenizer {
 public:
  // A PCRE2 pattern over Unicode text. Throws Error(kModel) if it is none.
  explicit PreTokenizer(std::string_view pattern);

  // Calls `piece` for each piece in order; together they are the text. What the pattern does not
  // match, and each run of bytes that are not UTF-8, is a piece by itself.
  void split(std::string_view text, const std::function<void(std::string_view)>& piece) const;

 private:
  Pattern pattern_;
};

}  // namespace vesper

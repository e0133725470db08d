// Pre-tokenizers: split normalized text into the pieces in which a model finds tokens, as defined
// by Hugging Face's tokenizers.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

// The space of SentencePiece and similar tokenizers.
inline constexpr std::string_view kSpaceMark = "\u2581";

// A piece of text, UTF-8.
struct TextPiece {
  std::string text;
  bool at_start = false;  // at the start of the whole text
};
// Splits a piece and appends its parts.
using PieceSplitter = std::function<void(const TextPiece&, std::vector<TextPiece>&)>;

// The use of the separators that a pattern matches.
enum class SplitBehavior {
  kIsolated,            // separate pieces
  kRemoved,             // dropped
  kMergedWithPrevious,  // end of the previous piece
  kMergedWithNext,      // start of the next piece
  kContiguous,          // adjacent separators are one piece
};

// Separators are the matches of the pattern, or with `invert` the text between them. Invalid UTF-8
// bytes are separate pieces. Throws Error(kModel) for an invalid pattern.
PieceSplitter split_by_pattern(std::string_view pattern, SplitBehavior behavior, bool invert);

// SentencePiece's words: U+2581 (or another sign) for every space, and before the text.
enum class SpacePrefix {
  kAlways,
  kFirst,
  kNever
};  // before every piece, the start of the whole
    // text, none
PieceSplitter split_at_spaces(std::string replacement, SpacePrefix prefix, bool split);
// At white space, which is dropped.
PieceSplitter split_at_white_space();
// Around each punctuation character: Unicode's, and ASCII characters that are no letters or digits.
PieceSplitter split_at_punctuation(SplitBehavior behavior);

// Replaces each byte by its byte-level character (llm/tokenizer/steps/byte_level.h).
PieceSplitter spell_bytes();

// The patterns with which the families' tokenizers split text, in order, by their GGUF names
// (tokenizer.ggml.pre: "gpt2", "llama-bpe", "qwen2").
struct PreTokenizerRow {
  std::vector<std::string_view> names;
  std::vector<std::string_view> patterns;
  bool ignore_merges = false;
};
// Null if the name has no row.
const PreTokenizerRow* find_pre_tokenizer(std::string_view name);
// The first name of a row with these patterns, if possible also with this ignore_merges; empty if
// there is none.
std::string_view pre_tokenizer_name(const std::vector<std::string>& patterns, bool ignore_merges);

// GPT-2's pattern, also Whisper's: English contractions, runs of letters, digits and other
// characters, each with the space before it, and white space.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace vesper

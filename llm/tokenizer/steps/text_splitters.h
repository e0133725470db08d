// What cuts normalized text into the pieces within which a model looks for tokens (pre-tokenizers),
// as Hugging Face's tokenizers define them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

// How SentencePiece, and what learnt from it, spells a space.
inline constexpr std::string_view kSpaceMark = "\u2581";

// A piece of text on its way to the model, in UTF-8.
struct TextPiece {
  std::string text;
  bool at_start = false;  // begins where the whole text does
};
// Cuts a piece and appends its parts.
using PieceSplitter = std::function<void(const TextPiece&, std::vector<TextPiece>&)>;

// What becomes of the separators that a pattern finds.
enum class SplitBehavior {
  kIsolated,            // each a piece by itself
  kRemoved,             // left out
  kMergedWithPrevious,  // the end of the piece before
  kMergedWithNext,      // the start of the piece behind
  kContiguous,          // neighbours of one kind (separators, or not) are one piece
};

// Separators are what the pattern matches, or with `invert` what lies between its matches. Bytes
// that are no UTF-8 are pieces by themselves. Throws Error(kModel) if it is no pattern.
PieceSplitter split_by_pattern(std::string_view pattern, SplitBehavior behavior, bool invert);

// SentencePiece's words: U+2581 (or another sign) in place of every space, and before the text.
enum class SpacePrefix { kAlways, kFirst, kNever };  // of every piece, of the whole text's start
PieceSplitter split_at_spaces(std::string replacement, SpacePrefix prefix, bool split);
// At white space, which is left out.
PieceSplitter split_at_white_space();
// Around each sign of punctuation: Unicode's, and ASCII's that are no letter or digit.
PieceSplitter split_at_punctuation(SplitBehavior behavior);

// Writes each byte as its character of the byte-level spelling (llm/tokenizer/steps/byte_level.h).
PieceSplitter spell_bytes();

// The patterns by which the families' own tokenizers cut text, one after the other, by the name
// that GGUF files give them (tokenizer.ggml.pre: "gpt2", "llama-bpe", "qwen2").
struct PreTokenizerRow {
  std::vector<std::string_view> names;
  std::vector<std::string_view> patterns;
  bool ignore_merges = false;
};
// Null if the name has no row.
const PreTokenizerRow* find_pre_tokenizer(std::string_view name);

// GPT-2's pattern, which Whisper's tokenizers use too: English contractions, runs of letters, of
// digits and of other signs, each with the space before it, and white space.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace vesper

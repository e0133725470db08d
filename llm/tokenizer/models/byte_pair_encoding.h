// Byte-pair encoding (Sennrich et al., "Neural Machine Translation of Rare Words with Subword
// Units", 2016): a piece of text is cut into symbols, and neighbours are merged, always the pair of
// the lowest rank, of equal ones the leftmost. In comes a piece as the pre-tokenizer left it, out
// go token ids. Time grows as n log n with the piece.
//
// Files say in two ways what merges: MergeListEncoding has a list of merges (GPT-2 and most
// language models), RankedEncoding the vocabulary alone (Whisper and SentencePiece).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llm/tokenizer/models/added_tokens.h"
#include "llm/tokenizer/models/vocabulary.h"

namespace vesper {

// Merges the pairs of a list; a pair's rank is its place there. Symbols are characters. Safe to use
// from several threads at once.
class MergeListEncoding {
 public:
  struct Settings {
    bool ignore_merges = false;      // a piece that is a token becomes that token at once
    bool byte_fallback = false;      // a character without a token becomes <0x00> tokens
    bool fuses_unknown = false;      // unknown characters side by side are one token
    int32_t unknown = -1;            // -1: what has no token is left out
    std::string continuing_prefix;   // of every character of a piece but its first
    std::string end_of_word_suffix;  // of a piece's last character
  };
  // Pairs of spellings, first learnt first. Throws Error(kModel) if one or what it makes is no
  // token.
  MergeListEncoding(std::shared_ptr<const Vocabulary> vocabulary,
                    const std::vector<std::pair<std::string_view, std::string_view>>& merges,
                    const Settings& settings);

  // Appends the tokens of a piece of UTF-8.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  // What a pair of tokens becomes.
  struct Merge {
    int32_t left = -1, right = -1;  // -1: a free place
    int32_t rank = 0, id = 0;
  };
  // Where the search for a pair begins.
  size_t first_place_of(int32_t left, int32_t right) const;
  // The place of a pair in merges_, or the free one where it would be.
  size_t place_of(int32_t left, int32_t right) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  Settings settings_;
  // A hash table with open addressing: a power of two of places, a quarter of them free or more.
  std::vector<Merge> merges_;
  std::vector<int32_t> byte_tokens_;  // of <0x00> to <0xFF>; empty if one is missing
};

// Merges neighbours that together spell a token; the rank is the token's. Safe to use from several
// threads at once.
class RankedEncoding {
 public:
  struct Settings {
    // Symbols are bytes, and a piece that is a token becomes it at once (tiktoken); else symbols
    // are characters (SentencePiece).
    bool by_bytes = false;
    std::vector<int32_t> ranks;        // by token id; empty: the id is the rank
    AddedTokens unmerged;              // tokens that merge with nothing
    int32_t unknown = -1;              // of what has no token, one for neighbours; -1: left out
    std::vector<int32_t> byte_tokens;  // instead of `unknown`, [256]; or empty
  };
  RankedEncoding(std::shared_ptr<const Vocabulary> vocabulary, Settings settings);

  // Appends the tokens of a piece.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  Settings settings_;
};

}  // namespace vesper

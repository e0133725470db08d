// Byte-pair encoding (Sennrich et al., "Neural Machine Translation of Rare Words with Subword
// Units", 2016): a piece of text is split into symbols, and neighbours are merged, always the pair
// of lowest rank, the leftmost of equal ones. In: a piece from the pre-tokenizer. Out: token ids.
// Takes O(n log n) time.
//
// MergeListEncoding has a list of merges (GPT-2 and most language models). RankedEncoding has only
// the vocabulary (Whisper and SentencePiece).
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

// Merges the pairs of a list; a pair's rank is its index. Symbols are characters. Thread-safe.
class MergeListEncoding {
 public:
  struct Settings {
    bool ignore_merges = false;      // a piece that is a token is not split
    bool byte_fallback = false;      // characters without a token become <0x00> tokens
    bool fuses_unknown = false;      // adjacent unknown characters are one token
    int32_t unknown = -1;            // -1: characters without a token are dropped
    std::string continuing_prefix;   // of every character of a piece except the first
    std::string end_of_word_suffix;  // of a piece's last character
  };
  // Pairs of spellings by rank. Throws Error(kModel) if a part or the result is not a token.
  MergeListEncoding(std::shared_ptr<const Vocabulary> vocabulary,
                    const std::vector<std::pair<std::string_view, std::string_view>>& merges,
                    const Settings& settings);

  // Appends the tokens of a piece of UTF-8.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  // The merge of a pair of tokens.
  struct Merge {
    int32_t left = -1, right = -1;  // -1: free slot
    int32_t rank = 0, id = 0;
  };
  // First slot of the search for a pair.
  size_t first_place_of(int32_t left, int32_t right) const;
  // The slot of a pair in merges_, or the free slot for it.
  size_t place_of(int32_t left, int32_t right) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  Settings settings_;
  // A hash table with open addressing: a power of two of slots, at least a quarter of them free.
  std::vector<Merge> merges_;
  std::vector<int32_t> byte_tokens_;  // of <0x00> to <0xFF>; empty if one is missing
};

// Merges neighbours whose joined spelling is a token; the rank is the token's. Thread-safe.
class RankedEncoding {
 public:
  struct Settings {
    // true: symbols are bytes, and a piece that is a token is not split (tiktoken). false: symbols
    // are characters (SentencePiece).
    bool by_bytes = false;
    std::vector<int32_t> ranks;  // by token id; empty: the id is the rank
    AddedTokens unmerged;        // tokens that never merge
    int32_t unknown = -1;        // for symbols without a token, once for neighbours; -1: dropped
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

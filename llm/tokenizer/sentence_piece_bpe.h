// SentencePiece's byte-pair encoding: neighbours are merged if the two together are a piece, always
// those with the highest score first. Whole texts go through it, not words. What LLaMA 2, Mistral
// and Gemma use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/tokenizer/added_tokens.h"
#include "llm/tokenizer/sentence_piece.h"

namespace vesper {

// Safe to use from several threads at once.
class SentencePieceBpe {
 public:
  // `pieces` by token id; `unknown`: the id of what no piece has, -1 if that is left out.
  SentencePieceBpe(const std::vector<SentencePiece>& pieces, int32_t unknown, bool byte_fallback);
  SentencePieceBpe(const SentencePieceBpe&) = delete;  // the index points into the texts
  SentencePieceBpe& operator=(const SentencePieceBpe&) = delete;

  // Appends the tokens of a normalized text, U+2581 for its spaces. Valid UTF-8. Time grows as
  // n log n.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  struct Piece {
    int32_t id, rank;  // of the highest score is 0
  };
  std::vector<std::string> texts_;
  std::unordered_map<std::string_view, Piece> index_;  // that merging may give
  AddedTokens user_defined_;                           // never merged with anything
  size_t longest_ = 0;                                 // bytes of the longest piece
  int32_t unknown_;
  std::vector<int32_t> byte_pieces_;  // of <0x00> to <0xFF>; empty without byte fallback
};

}  // namespace vesper

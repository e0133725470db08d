// SentencePiece's unigram tokenizer: splits a word into the pieces with the highest sum of scores
// (Kudo, "Subword Regularization", 2018). Used by XLM-R, multilingual E5 and BGE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/models/vocabulary.h"

namespace vesper {

// A piece of a SentencePiece vocabulary.
struct SentencePiece {
  // Numbers of SentencePiece's files and GGUF.
  enum class Type { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  std::string text;
  double score = 0;           // log-probability, or a rank. An f32 in SentencePiece's files
  Type type = Type::kNormal;  // a tokenizer.json has no types

  // Whether it may be found in a text.
  bool is_text() const { return type == Type::kNormal || type == Type::kUserDefined; }
};

class Unigram {
 public:
  // `pieces` by token id. `unknown` is the id for characters without a piece; -1: dropped.
  // `byte_fallback`: such characters become <0x00> pieces, if all exist. `single_precision`: sums
  // are f32, as in SentencePiece but not in Hugging Face's tokenizers, which decides between equal
  // scores. Throws Error(kModel).
  Unigram(std::vector<SentencePiece> pieces, int32_t unknown, bool byte_fallback,
          bool single_precision = false);

  // Appends the tokens of a normalized piece of valid UTF-8, with U+2581 for spaces.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  // Appends the tokens of characters without a piece.
  void encode_unknown(std::string_view characters, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;  // by id
  int32_t unknown_;
  double unknown_score_ = 0;
  bool single_precision_;
  std::vector<int32_t> byte_pieces_;  // of <0x00> to <0xFF>; empty if one is missing
};

}  // namespace vesper

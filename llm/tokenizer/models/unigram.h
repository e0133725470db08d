// SentencePiece's unigram tokenizer: of all ways to cut a word into pieces, the one whose scores
// sum up highest (Kudo, "Subword Regularization", 2018). What XLM-R and multilingual E5 and BGE
// use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/models/vocabulary.h"

namespace vesper {

// A piece of a SentencePiece vocabulary.
struct SentencePiece {
  // By the numbers in SentencePiece's files, and in GGUF's.
  enum class Type { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  std::string text;
  float score = 0;  // logarithm of its probability, or a rank
  Type type = Type::kNormal;
};

class Unigram {
 public:
  struct Piece {
    std::string text;
    double score = 0;  // logarithm of its probability
    // Only normal and user-defined ones are found in a text. A tokenizer.json knows no types.
    SentencePiece::Type type = SentencePiece::Type::kNormal;
  };
  // `pieces` by token id; `unknown` is the id of what no piece has, -1 if that is left out.
  // `byte_fallback`: what no piece has becomes <0x00> pieces, if all are there.
  // `single_precision`: sums are kept in f32, as SentencePiece does and Hugging Face's tokenizers
  // do not; it decides between ways that are as likely. Throws Error(kModel).
  Unigram(std::vector<Piece> pieces, int32_t unknown, bool byte_fallback,
          bool single_precision = false);

  // Appends the tokens of a normalized piece of text, U+2581 for its spaces. Valid UTF-8.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  // Appends what stands for characters that no piece has.
  void encode_unknown(std::string_view characters, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;  // by id
  int32_t unknown_;
  double unknown_score_ = 0;
  bool single_precision_;
  std::vector<int32_t> byte_pieces_;  // of <0x00> to <0xFF>; empty if one is missing
};

}  // namespace vesper

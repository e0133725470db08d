// A piece of a SentencePiece vocabulary.
#pragma once

#include <string>

namespace vesper {

struct SentencePiece {
  // By the numbers in SentencePiece's files, and in GGUF's.
  enum class Type { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  std::string text;
  float score = 0;  // logarithm of its probability, or a rank
  Type type = Type::kNormal;
};

}  // namespace vesper

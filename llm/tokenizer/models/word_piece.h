// WordPiece, BERT's tokenizer: a word is split into the longest token at its start, then the
// longest continuation each time (Wu et al., "Google's Neural Machine Translation System", 2016; as
// in the published BERT code).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/models/vocabulary.h"

namespace vesper {

class WordPiece {
 public:
  struct Settings {
    std::string continuation = "##";     // prefix of continuations in the vocabulary
    std::string unknown = "[UNK]";       // token of a word that cannot be split
    uint32_t max_word_characters = 100;  // longer words are unknown
  };
  // Throws Error(kModel) if the vocabulary lacks the unknown token.
  WordPiece(std::shared_ptr<const Vocabulary> vocabulary, const Settings& settings);

  // Appends the tokens of a word of UTF-8.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  Settings settings_;
  int32_t unknown_;
};

}  // namespace vesper

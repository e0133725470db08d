// WordPiece, BERT's tokenizer: a word becomes the longest token that it begins with, and the rest
// the longest continuation each time (Wu et al., "Google's Neural Machine Translation System",
// 2016; as in the published BERT code).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vesper {

class WordPiece {
 public:
  struct Settings {
    std::string continuation = "##";     // what continuations begin with in the vocabulary
    std::string unknown = "[UNK]";       // the token of a word that cannot be put together
    uint32_t max_word_characters = 100;  // longer words are unknown
  };
  // `vocabulary`: spellings by token id. Throws Error(kModel) if it lacks the unknown token.
  WordPiece(std::vector<std::string> vocabulary, const Settings& settings);
  WordPiece(const WordPiece&) = delete;  // the indexes point into the vocabulary
  WordPiece& operator=(const WordPiece&) = delete;

  // Appends the tokens of a word of UTF-8.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

  // The token of exactly this spelling, or -1.
  int32_t find(std::string_view spelling) const;
  const std::vector<std::string>& vocabulary() const { return vocabulary_; }

 private:
  Settings settings_;
  std::vector<std::string> vocabulary_;
  std::unordered_map<std::string_view, int32_t> id_of_;
  std::unordered_map<std::string_view, int32_t> continuations_;  // without their prefix
  size_t longest_ = 0;                                           // bytes of the longest token
  int32_t unknown_ = 0;
};

}  // namespace vesper

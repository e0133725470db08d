// SentencePiece's unigram tokenizer: of all ways to cut a word into pieces, the one whose scores
// sum up highest (Kudo, "Subword Regularization", 2018). What XLM-R and multilingual E5 and BGE
// use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/tokenizer/precompiled_normalizer.h"

namespace vesper {

class Unigram {
 public:
  struct Piece {
    std::string text;
    double score = 0;  // logarithm of its probability
  };
  struct Settings {
    std::string charsmap;                           // see PrecompiledNormalizer
    bool strips_start = false, strips_end = false;  // of white space
    bool joins_spaces = true;                       // runs of spaces count as one
    bool splits_white_space = true;  // words are cut at white space of any kind, else at spaces
    bool prefixes_words = true;      // a text's first word gets the sign of a space too
  };
  // `pieces` by token id; `unknown` is the id of what no piece has. Throws Error(kModel).
  Unigram(std::vector<Piece> pieces, int32_t unknown, const Settings& settings);
  Unigram(const Unigram&) = delete;  // the index points into the pieces
  Unigram& operator=(const Unigram&) = delete;

  // Appends the tokens of a text, without the special ones that a model puts around it.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;

  size_t n_pieces() const { return pieces_.size(); }
  const std::string& piece(int32_t id) const { return pieces_[static_cast<size_t>(id)].text; }

 private:
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

  std::vector<Piece> pieces_;
  int32_t unknown_;
  Settings settings_;
  PrecompiledNormalizer normalizer_;
  std::unordered_map<std::string_view, int32_t> id_of_;
  size_t longest_ = 0;  // bytes of the longest piece
  double unknown_score_ = 0;
};

}  // namespace vesper

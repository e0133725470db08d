// Texts to the token ids that an encoder of text takes, special tokens included: a model's
// tokenizer.json (WordPiece or unigram), or BERT's vocab.txt, in the folder of its weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/unigram.h"
#include "llm/tokenizer/word_piece.h"
#include "llm/weights/mapped_file.h"

namespace vesper {

// A text as tokens.
struct TokenizedText {
  std::vector<int32_t> ids;
  uint32_t n_tokens = 0;  // that the whole text has: more than ids.size() if it was cut
};

class SentenceTokenizer {
 public:
  // Throws Error(kModel) if the folder has neither file, or one that the engine does not know.
  explicit SentenceTokenizer(const ModelFiles& files);

  // At most `max_tokens` tokens, the special ones among them: the text's last ones are left out.
  TokenizedText encode(std::string_view text, uint32_t max_tokens) const;

  // The least max_tokens that leaves room for a token of the text.
  uint32_t least_tokens() const {
    return static_cast<uint32_t>(before_.size() + after_.size()) + 1;
  }
  uint32_t n_vocab() const;
  // How the vocabulary spells a token that encode() gave: "##ing".
  std::string spelling(int32_t id) const;

 private:
  void read_tokenizer_json(const MappedFile& file);
  void read_vocabulary_text(const ModelFiles& files);

  // A token that stands for itself wherever a text has its spelling.
  struct AddedToken {
    std::string spelling;
    int32_t id;
  };

  void encode_part(std::string_view text, std::vector<int32_t>& ids) const;

  // One of the two.
  std::unique_ptr<WordPiece> words_;
  std::unique_ptr<Unigram> unigram_;
  std::vector<AddedToken> added_;
  std::vector<int32_t> before_, after_;  // what the model has around a text
};

}  // namespace vesper

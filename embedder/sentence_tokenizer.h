// Texts to the token ids that an encoder of text takes, special tokens included, cut to what it has
// room for.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "llm/tokenizer/text_tokenizer.h"
#include "llm/weights/model_tokenizer.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// A text as tokens.
struct TokenizedText {
  std::vector<int32_t> ids;
  uint32_t n_tokens = 0;  // that the whole text has: more than ids.size() if it was cut
};

class SentenceTokenizer {
 public:
  // Of a model's file or folder, or of an open model. Throws Error(kModel) if there is no
  // tokenizer, or one that the engine does not know.
  explicit SentenceTokenizer(const ModelFiles& files) : tokenizer_(open_text_tokenizer(files)) {}
  explicit SentenceTokenizer(const std::filesystem::path& model)
      : tokenizer_(open_text_tokenizer(model)) {}
  explicit SentenceTokenizer(const WeightProvider& weights)
      : tokenizer_(open_text_tokenizer(weights)) {}

  // At most `max_tokens` tokens, the special ones among them: the text's last ones are left out.
  TokenizedText encode(std::string_view text, uint32_t max_tokens) const;

  // The least max_tokens that leaves room for a token of the text.
  uint32_t least_tokens() const {
    return static_cast<uint32_t>(tokenizer_->before().size() + tokenizer_->after().size()) + 1;
  }
  uint32_t n_vocab() const { return tokenizer_->n_vocab(); }

 private:
  std::unique_ptr<TextTokenizer> tokenizer_;
};

}  // namespace vesper

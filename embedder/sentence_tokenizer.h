// Texts to token ids of a text encoder, with special tokens, truncated to a maximum.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "llm/tokenizer/files/open_text_tokenizer.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// A text as token ids.
struct TokenizedText {
  std::vector<int32_t> ids;
  uint32_t n_tokens = 0;  // of the whole text; more than ids.size() if it was truncated
};

class SentenceTokenizer {
 public:
  // From a model's file or folder, or from an open model. Throws Error(kModel) if there is no
  // tokenizer, or an unknown one.
  explicit SentenceTokenizer(const ModelFiles& files) : tokenizer_(open_text_tokenizer(files)) {}
  explicit SentenceTokenizer(const std::filesystem::path& model)
      : tokenizer_(open_text_tokenizer(model)) {}
  explicit SentenceTokenizer(const WeightProvider& weights)
      : tokenizer_(open_text_tokenizer(weights)) {}

  // At most `max_tokens` tokens, special tokens included; the end of the text is truncated.
  TokenizedText encode(std::string_view text, uint32_t max_tokens) const;

  // The smallest max_tokens with room for one token of the text.
  uint32_t least_tokens() const {
    return static_cast<uint32_t>(tokenizer_->before().size() + tokenizer_->after().size()) + 1;
  }
  uint32_t n_vocab() const { return tokenizer_->n_vocab(); }

 private:
  std::unique_ptr<TextTokenizer> tokenizer_;
};

}  // namespace vesper

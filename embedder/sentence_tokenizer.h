// Texts to token ids of a text encoder, with special tokens, truncated to a maximum; and pairs of
// texts to those of a reranker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/files/open_text_tokenizer.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// A text, or a pair of texts, as token ids.
struct TokenizedText {
  std::vector<int32_t> ids;
  uint32_t n_tokens = 0;      // of the whole text; more than ids.size() if it was truncated
  uint32_t second_begin = 0;  // of a pair: its first token of type 1; ids.size() if none is
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
  // A pair for a cross-encoder. The end of the longer text is truncated, then both equally, as
  // Hugging Face's "longest first". Requires pair().
  TokenizedText encode_pair(std::string_view query, std::string_view document,
                            uint32_t max_tokens) const;
  // The prompt of Qwen3-Reranker: whether the document meets the query. The end of the document is
  // truncated. Special tokens in the texts are text.
  TokenizedText encode_judgement(std::string_view instruction, std::string_view query,
                                 std::string_view document, uint32_t max_tokens) const;

  // The smallest max_tokens with room for one token of the text, or of each text of a pair or a
  // judgement.
  uint32_t least_tokens() const {
    return static_cast<uint32_t>(tokenizer_->before().size() + tokenizer_->after().size()) + 1;
  }
  uint32_t least_pair_tokens() const;
  uint32_t least_judgement_tokens() const;
  uint32_t n_vocab() const { return tokenizer_->n_vocab(); }
  const TextTokenizer& tokens() const { return *tokenizer_; }

 private:
  std::vector<int32_t> judgement_begin() const, judgement_end() const;

  std::unique_ptr<TextTokenizer> tokenizer_;
};

}  // namespace vesper

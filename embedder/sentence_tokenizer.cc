#include "embedder/sentence_tokenizer.h"

namespace vesper {

TokenizedText SentenceTokenizer::encode(std::string_view text, uint32_t max_tokens) const {
  TokenizedText result;
  result.ids = tokenizer_->encode(text, true, true);
  result.n_tokens = static_cast<uint32_t>(result.ids.size());
  if (result.n_tokens > max_tokens) {
    const auto after = tokenizer_->after();
    result.ids.resize(max_tokens - after.size());
    result.ids.insert(result.ids.end(), after.begin(), after.end());
  }
  return result;
}

}  // namespace vesper

// Whether a grammar admits a text, given to a matcher token by token. Tokens are all bytes and some
// longer pieces of JSON.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/grammar/matching/grammar_matcher.h"

namespace vesper {

inline std::shared_ptr<const TokenVocabulary> byte_vocabulary() {
  static const auto vocabulary = [] {
    std::vector<std::string> texts = {""};
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    for (const char* piece :
         {"{\"", "\":", "\",", ", ", "\"}", "],", "\\u", "12", "th", "\xc3\xa9", "\":[{\"a"}) {
      texts.emplace_back(piece);
    }
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    const int32_t stop = 0;
    return std::make_shared<const TokenVocabulary>(views, std::span(&stop, 1));
  }();
  return vocabulary;
}

class GrammarTexts {
 public:
  explicit GrammarTexts(const Grammar& grammar)
      : matcher_(std::make_shared<const GrammarMasks>(CompiledGrammar(grammar), byte_vocabulary())),
        mask_(matcher_.masks().n_words()) {}

  bool accepts(std::string_view text) {
    matcher_.reset();
    const TokenVocabulary& vocabulary = matcher_.masks().vocabulary();
    for (size_t at = 0; at < text.size();) {
      int32_t token = 1 + static_cast<unsigned char>(text[at]);
      for (auto id = static_cast<int32_t>(vocabulary.n_tokens()) - 1; id > 256; --id) {
        if (text.substr(at).starts_with(vocabulary.bytes_of(id))) token = id;
      }
      matcher_.fill_mask(mask_);
      const bool allowed = mask_[size_t(token) / 32] >> (token % 32) & 1;
      if (!allowed || !matcher_.accept(token)) return false;
      at += vocabulary.bytes_of(token).size();
    }
    return matcher_.may_end();
  }

  GrammarMatcher& matcher() { return matcher_; }

 private:
  GrammarMatcher matcher_;
  std::vector<uint32_t> mask_;
};

}  // namespace vesper

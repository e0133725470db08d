#include "embedder/sentence_tokenizer.h"

#include <algorithm>

namespace vesper {
namespace {

void append(std::vector<int32_t>& to, std::span<const int32_t> ids) {
  to.insert(to.end(), ids.begin(), ids.end());
}

}  // namespace

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

TokenizedText SentenceTokenizer::encode_pair(std::string_view query, std::string_view document,
                                             uint32_t max_tokens) const {
  const PairTemplate& pair = *tokenizer_->pair();
  const std::vector<int32_t> first = tokenizer_->encode(query, true, false);
  const std::vector<int32_t> second = tokenizer_->encode(document, true, false);
  const size_t n_special = pair.before.size() + pair.between.size() + pair.after.size();
  const size_t room = max_tokens - n_special;
  size_t n_first = first.size(), n_second = second.size();
  if (n_first + n_second > room) {
    size_t& shorter = n_first > n_second ? n_second : n_first;
    size_t& longer = n_first > n_second ? n_first : n_second;
    longer = shorter > room ? shorter : std::max(shorter, room - shorter);
    if (shorter + longer > room) {
      shorter = room / 2;
      longer = room - shorter;
    }
  }
  TokenizedText result;
  result.n_tokens = static_cast<uint32_t>(first.size() + second.size() + n_special);
  append(result.ids, pair.before);
  append(result.ids, std::span(first).first(n_first));
  append(result.ids, pair.between);
  result.second_begin = static_cast<uint32_t>(result.ids.size());
  append(result.ids, std::span(second).first(n_second));
  append(result.ids, pair.after);
  if (!pair.has_types) result.second_begin = static_cast<uint32_t>(result.ids.size());
  return result;
}

// The texts of Qwen3-Reranker's model card.
std::vector<int32_t> SentenceTokenizer::judgement_begin() const {
  return tokenizer_->encode(
      "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
      "and "
      "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
      "<|im_start|>user\n",
      true, false);
}

std::vector<int32_t> SentenceTokenizer::judgement_end() const {
  return tokenizer_->encode("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", true,
                            false);
}

TokenizedText SentenceTokenizer::encode_judgement(std::string_view instruction,
                                                  std::string_view query, std::string_view document,
                                                  uint32_t max_tokens) const {
  TokenizedText result;
  result.ids = judgement_begin();
  const std::vector<int32_t> end = judgement_end();
  std::string texts = "<Instruct>: ";
  texts.append(instruction).append("\n<Query>: ").append(query);
  texts.append("\n<Document>: ").append(document);
  const std::vector<int32_t> middle = tokenizer_->encode(texts, false, false);
  result.n_tokens = static_cast<uint32_t>(result.ids.size() + middle.size() + end.size());
  const size_t room = max_tokens - result.ids.size() - end.size();
  append(result.ids, std::span(middle).first(std::min(room, middle.size())));
  append(result.ids, end);
  result.second_begin = static_cast<uint32_t>(result.ids.size());
  return result;
}

uint32_t SentenceTokenizer::least_pair_tokens() const {
  const PairTemplate& pair = *tokenizer_->pair();
  return static_cast<uint32_t>(pair.before.size() + pair.between.size() + pair.after.size()) + 2;
}

uint32_t SentenceTokenizer::least_judgement_tokens() const {
  return static_cast<uint32_t>(judgement_begin().size() + judgement_end().size()) + 2;
}

}  // namespace vesper

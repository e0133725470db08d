// Where the tokens of an answer become text: streamed as they come, up to a stop text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// Text up to the first of some stop texts. What may be the beginning of one is held back.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  // What can be said for certain now.
  std::string push(std::string_view text);
  // The end: what was held back.
  std::string finish();
  bool is_stopped() const { return is_stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool is_stopped_ = false;
};

// One answer.
class AnswerWriter {
 public:
  // The tokenizer, which may be null where there is to be no text, must outlive this.
  AnswerWriter(const TextTokenizer* tokenizer, std::vector<std::string> stops);

  // The text that these tokens add; tokens that end an answer add none.
  std::string push(const std::vector<int32_t>& ids);
  std::string finish();
  bool is_stopped() const { return stops_.is_stopped(); }

 private:
  const TextTokenizer* tokenizer_;
  std::vector<TextStream> stream_;  // one, or none without a tokenizer
  StopTexts stops_;
};

}  // namespace vesper

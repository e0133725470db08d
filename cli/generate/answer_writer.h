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

  // The text that this token adds; one that ends an answer adds none.
  std::string push(int32_t id);
  std::string finish();
  bool is_stopped() const { return stops_.is_stopped(); }
  // How many of the tokens, from the first, are known to be of the text: those that begin before
  // its end, so that neither what ended the answer nor what a stop text is made of is among them.
  // Without a tokenizer all are. Final after finish().
  size_t n_in_text() const { return n_in_text_; }

 private:
  std::string take(std::string text);

  const TextTokenizer* tokenizer_;
  std::vector<TextStream> stream_;  // one, or none without a tokenizer
  StopTexts stops_;
  std::vector<size_t> begins_;               // of each token: bytes of text before it
  size_t n_in_text_ = 0;                     // of begins_
  size_t n_bytes_pushed_ = 0, n_bytes_ = 0;  // of text: what a stop text may be in, and certain
};

}  // namespace vesper

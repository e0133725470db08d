// Tokens of an answer to text: streamed as they come, up to a stop text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// Text up to the first of some stop texts. What may be the beginning of one is held back.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  // Takes new text, and returns the text that no stop text can begin in any more.
  std::string push(std::string_view text);
  // The end: returns the text that was held back.
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
  // `tokenizer` may be null: there is no text then. It must outlive this.
  AnswerWriter(const TextTokenizer* tokenizer, std::vector<std::string> stops);

  // Returns the text that this token completes; a token that ends an answer adds none.
  std::string push(int32_t id);
  std::string finish();
  bool is_stopped() const { return stops_.is_stopped(); }
  // So many of the tokens, from the first, are known to be of the text: those that begin before
  // its end. Neither a token that ended the answer nor those of a stop text are among them. Without
  // a tokenizer all are. Final after finish().
  size_t n_in_text() const { return n_in_text_; }

 private:
  std::string take(std::string text);

  const TextTokenizer* tokenizer_;
  std::optional<TextStream> stream_;  // absent without a tokenizer
  StopTexts stops_;
  std::vector<size_t> begins_;  // of each token: bytes of text before it
  size_t n_in_text_ = 0;        // of begins_
  size_t n_bytes_pushed_ = 0;   // of text, a stop text maybe among it
  size_t n_bytes_ = 0;          // of text that was returned
};

}  // namespace vesper

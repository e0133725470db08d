// Streams the tokens of an answer as text, up to a stop text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// Text up to the first stop text. Text that may begin one is held back.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  // Adds text; returns the text that cannot be part of a stop text.
  std::string push(std::string_view text);
  // Ends the text; returns the text that was held back.
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
  // `tokenizer` may be null, for no text. It must outlive this object. `with_special`: special
  // tokens are part of the text.
  AnswerWriter(const TextTokenizer* tokenizer, std::vector<std::string> stops,
               bool with_special = false);

  // Returns the text that this token completes; a token that ends an answer adds none.
  std::string push(int32_t id);
  std::string finish();
  bool is_stopped() const { return stops_.is_stopped(); }
  // The number of first tokens known to belong to the text: those that begin before its end,
  // without the token that ended it and those of a stop text. All without a tokenizer. Final after
  // finish().
  size_t n_in_text() const { return n_in_text_; }

 private:
  std::string take(std::string text);

  const TextTokenizer* tokenizer_;
  std::optional<TextStream> stream_;  // absent without a tokenizer
  StopTexts stops_;
  std::vector<size_t> begins_;  // per token: bytes of text before it
  size_t n_in_text_ = 0;        // of begins_
  size_t n_bytes_pushed_ = 0;   // of text, including a stop text
  size_t n_bytes_ = 0;          // of returned text
};

}  // namespace vesper

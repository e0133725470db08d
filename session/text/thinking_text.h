// Answers of models that think first: what is between <think> and </think>, and the rest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vesper {

struct AnswerPart {
  std::string text;
  bool is_thinking = false;
};

class ThinkingText {
 public:
  // `starts_inside`: the prompt has ended with <think>.
  explicit ThinkingText(bool starts_inside = false) : is_inside_(starts_inside) {}

  // Returns the parts that new text completes, without the tags and the white space behind them.
  // What may be the beginning of a tag is held back.
  std::vector<AnswerPart> push(std::string_view text);
  // The end: returns the text that was held back.
  std::vector<AnswerPart> finish();

 private:
  void emit(std::string_view text, std::vector<AnswerPart>& parts);

  bool is_inside_;
  bool skips_space_ = true;  // at the start and behind a tag
  std::string held_;
};

}  // namespace vesper

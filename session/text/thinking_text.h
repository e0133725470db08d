// Splits answers of models that think first: text between <think> and </think>, and the rest.
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
  // `starts_inside`: the prompt ends with <think>.
  explicit ThinkingText(bool starts_inside = false) : is_inside_(starts_inside) {}

  // Returns the parts that new text completes, without tags and white space after them. Text that
  // may begin a tag is held back.
  std::vector<AnswerPart> push(std::string_view text);
  // Ends the text; returns the text that was held back.
  std::vector<AnswerPart> finish();

 private:
  void emit(std::string_view text, std::vector<AnswerPart>& parts);

  bool is_inside_;
  bool skips_space_ = true;  // at the start and after a tag
  std::string held_;
};

}  // namespace vesper

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
  explicit ThinkingText(bool starts_inside = false)
      : is_inside_(starts_inside), skips_space_(starts_inside) {}

  // Returns the parts that new text completes, without tags, white space after them and before a
  // first one. Text that may be one of these is held back.
  std::vector<AnswerPart> push(std::string_view text);
  // Ends the text; returns the text that was held back.
  std::vector<AnswerPart> finish();

 private:
  void emit(std::string_view text, std::vector<AnswerPart>& parts);

  bool is_inside_;
  bool skips_space_;      // after a tag
  bool is_first_ = true;  // nothing was emitted, and there was no tag
  std::string held_;
};

}  // namespace vesper

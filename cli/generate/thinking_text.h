// Answers of models that think aloud first: what stands between <think> and </think>, and the rest.
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

  // The parts that this portion completes, the tags themselves and the white space behind them left
  // out. What may be the beginning of a tag is held back.
  std::vector<AnswerPart> push(std::string_view text);
  // The end: what was held back.
  std::vector<AnswerPart> finish();

 private:
  void emit(std::string_view text, std::vector<AnswerPart>& parts);

  bool is_inside_;
  bool skips_space_ = true;  // at the start and behind a tag
  std::string held_;
};

// An answer without its thinking.
std::string without_thinking(std::string_view answer, bool starts_inside);

}  // namespace vesper

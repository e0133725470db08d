#include "session/text/thinking_text.h"

#include <algorithm>

namespace vesper {

namespace {

bool is_space(std::string_view text) {
  return text.find_first_not_of(" \n\r\t") == std::string_view::npos;
}

}  // namespace

void ThinkingText::emit(std::string_view text, std::vector<AnswerPart>& parts) {
  if (skips_space_) {
    const size_t first = text.find_first_not_of(" \n\r\t");
    text.remove_prefix(std::min(first, text.size()));
  }
  if (text.empty()) return;
  skips_space_ = is_first_ = false;
  parts.push_back({std::string(text), is_inside_});
}

std::vector<AnswerPart> ThinkingText::push(std::string_view text) {
  std::vector<AnswerPart> parts;
  held_ += text;
  for (;;) {
    const std::string_view tag = is_inside_ ? "</think>" : "<think>";
    const size_t at = held_.find(tag);
    if (at == std::string::npos) {
      // The longest suffix that may begin the tag.
      size_t n = std::min(tag.size() - 1, held_.size());
      while (n > 0 && !tag.starts_with(std::string_view(held_).substr(held_.size() - n))) --n;
      const std::string_view certain = std::string_view(held_).substr(0, held_.size() - n);
      if (is_first_ && is_space(certain)) return parts;
      emit(certain, parts);
      held_.erase(0, held_.size() - n);
      return parts;
    }
    const std::string_view before = std::string_view(held_).substr(0, at);
    if (!is_first_ || !is_space(before)) emit(before, parts);
    is_first_ = false;
    held_.erase(0, at + tag.size());
    is_inside_ = !is_inside_;
    skips_space_ = true;
  }
}

std::vector<AnswerPart> ThinkingText::finish() {
  std::vector<AnswerPart> parts;
  emit(held_, parts);
  held_.clear();
  return parts;
}

}  // namespace vesper

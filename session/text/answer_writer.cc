#include "session/text/answer_writer.h"

#include <algorithm>
#include <utility>

namespace vesper {

std::string StopTexts::push(std::string_view text) {
  if (is_stopped_) return {};
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    is_stopped_ = true;
    held_.resize(first);
    return std::exchange(held_, {});
  }
  // The longest suffix of the text that may begin a stop text.
  size_t n_held = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > n_held; --n) {
      if (std::string_view(held_).substr(held_.size() - n) == std::string_view(stop).substr(0, n)) {
        n_held = n;
      }
    }
  }
  std::string certain = held_.substr(0, held_.size() - n_held);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopTexts::finish() { return std::exchange(held_, {}); }

AnswerWriter::AnswerWriter(const TextTokenizer* tokenizer, std::vector<std::string> stops,
                           bool with_special)
    : tokenizer_(tokenizer), stops_(std::move(stops)) {
  if (tokenizer) stream_.emplace(*tokenizer, with_special);
}

std::string AnswerWriter::push(int32_t id) {
  if (!stream_) {
    ++n_in_text_;
    return {};
  }
  if (tokenizer_->is_end(id)) return {};
  begins_.push_back(n_bytes_pushed_);
  const std::string text = stream_->push(id);
  n_bytes_pushed_ += text.size();
  return take(stops_.push(text));
}

std::string AnswerWriter::finish() {
  if (!stream_) return {};
  std::string text = take(stops_.push(stream_->finish()));
  text += take(stops_.finish());
  // Tokens without text may follow, such as control tokens.
  if (!is_stopped()) n_in_text_ = begins_.size();
  return text;
}

std::string AnswerWriter::take(std::string text) {
  n_bytes_ += text.size();
  while (n_in_text_ < begins_.size() && begins_[n_in_text_] < n_bytes_) ++n_in_text_;
  return text;
}

}  // namespace vesper

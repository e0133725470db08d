#include "decoder/transcript/subtitles.h"

#include <algorithm>
#include <utility>

#include "decoder/transcript/segment_cutting.h"
#include "decoder/transcript/text_lines.h"

namespace vesper {
namespace {

std::string_view trimmed_view(std::string_view text) {
  const size_t first = text.find_first_not_of(" \n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \n") - first + 1);
}

// Whether the text continues a written word: "'est" after "c", "-hearted" after "cold".
bool continues_word(std::string_view text) {
  return text.size() > 1 && (text[0] == '-' || text[0] == '\'') && text[1] != ' ' &&
         text[1] != text[0];
}

// The segment's words as they are written. In openai-whisper a hyphen or an apostrophe begins a
// word, but no cue or line should end there.
std::vector<Word> written_words(const Segment& segment) {
  std::vector<Word> words;
  for (Word& word : words_of(segment)) {
    if (words.empty() || words.back().text.ends_with(' ') || !continues_word(word.text)) {
      words.push_back(std::move(word));
      continue;
    }
    words.back().text += word.text;
    words.back().end_s = word.end_s;
  }
  return words;
}

}  // namespace

void CueMaker::push(const Segment& segment) {
  if (!layout_.of_words()) {
    const std::string text = one_line(segment.text);
    if (text.empty()) return;
    const TimeSpan span = milliseconds(segment.start_s, segment.end_s);
    Cue cue{span.start, span.end, {speaker_label(segment) + text}, {}};
    // Speech in two channels may overlap.
    if (segment.channel > 0) return on_cue_(cue);
    return emit_after_waiting(std::move(cue));
  }
  uint32_t n_on_line = 0;
  std::string label = speaker_label(segment);
  for (Word word : written_words(segment)) {
    if (trimmed_view(plain_text(word.text)).empty()) continue;
    if (!label.empty()) {
      word.text = " " + std::exchange(label, {}) + std::string(trimmed_view(word.text));
    }
    if (keeps_segments() && layout_.max_words_per_line &&
        n_on_line++ == *layout_.max_words_per_line) {
      close_cue();
      n_on_line = 1;
    }
    add_word(word);
  }
  if (keeps_segments()) close_cue();
}

void CueMaker::finish() {
  close_cue();
  constexpr int64_t kShown_ms = 100;  // for a final word without a known end
  if (waiting_.empty()) return;
  const int64_t start = waiting_.front().start_ms;
  emit_waiting(start, start + kShown_ms * static_cast<int64_t>(waiting_.size()));
}

void CueMaker::add_word(const Word& word) {
  constexpr double kLongPause_s = 3.0;
  const std::string text = plain_text(word.text);
  const bool long_pause =
      !keeps_segments() && last_start_s_ && word.start_s - *last_start_s_ > kLongPause_s;
  const bool has_room =
      !layout_.max_line_width || line_length_ + count_characters(text) <= *layout_.max_line_width;
  const TimeSpan span = milliseconds(word.start_s, word.end_s);
  last_start_s_ = word.start_s;
  if (line_length_ > 0 && has_room && !long_pause) {
    line_length_ += count_characters(text);
    cue_.push_back({span.start, span.end, text});
    return;
  }
  std::string first_of_line(trimmed_view(text));
  if (!cue_.empty() && layout_.max_line_count &&
      (long_pause || n_lines_ >= *layout_.max_line_count)) {
    close_cue();
  } else if (line_length_ > 0) {
    ++n_lines_;
    first_of_line.insert(0, "\n");
  }
  line_length_ = count_characters(trimmed_view(text));
  cue_.push_back({span.start, span.end, std::move(first_of_line)});
}

void CueMaker::close_cue() {
  if (cue_.empty()) return;
  Cue whole{cue_.front().start_ms, cue_.back().end_ms, {}, {}};
  for (const Placed& word : cue_) whole.words.push_back(word.text);
  if (layout_.highlight_words) {
    int64_t last_ms = whole.start_ms;
    for (size_t i = 0; i < cue_.size(); ++i) {
      if (cue_[i].start_ms > last_ms) {
        Cue between = whole;
        between.start_ms = last_ms;
        between.end_ms = cue_[i].start_ms;
        emit_after_waiting(std::move(between));
      }
      Cue current = whole;
      current.start_ms = cue_[i].start_ms;
      last_ms = current.end_ms = cue_[i].end_ms;
      current.highlighted = i;
      emit_after_waiting(std::move(current));
    }
  } else {
    emit_after_waiting(std::move(whole));
  }
  cue_.clear();
  line_length_ = 0;
  n_lines_ = 1;
}

void CueMaker::emit_after_waiting(Cue cue) {
  constexpr int64_t kShown_ms = 100;
  if (!waiting_.empty() && cue.start_ms > waiting_.front().start_ms) {
    // There is time for them.
    const int64_t start = waiting_.front().start_ms;
    emit_waiting(start,
                 std::min(cue.start_ms, start + kShown_ms * static_cast<int64_t>(waiting_.size())));
  }
  cue.start_ms = std::max(cue.start_ms, emitted_ms_);
  if (!waiting_.empty()) cue.start_ms = waiting_.front().start_ms;
  const int64_t end_ms = cue.end_ms;
  waiting_.push_back(std::move(cue));
  if (end_ms > waiting_.front().start_ms) emit_waiting(waiting_.front().start_ms, end_ms);
}

void CueMaker::emit_waiting(int64_t start_ms, int64_t end_ms) {
  const auto n = static_cast<int64_t>(waiting_.size());
  end_ms = std::max(end_ms, start_ms + n);
  for (int64_t i = 0; i < n; ++i) {
    Cue& cue = waiting_[static_cast<size_t>(i)];
    cue.start_ms = start_ms + (end_ms - start_ms) * i / n;
    cue.end_ms = start_ms + (end_ms - start_ms) * (i + 1) / n;
    on_cue_(cue);
  }
  emitted_ms_ = end_ms;
  waiting_.clear();
}

}  // namespace vesper

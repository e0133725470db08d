#include "decoder/windows/live/live_captions.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>

#include "decoder/windows/window_segments.h"

namespace vesper {
namespace {

// Whether the text ends inside a UTF-8 character.
bool ends_in_the_middle(std::string_view text) {
  size_t n_following = 0;
  while (n_following < text.size() && n_following < 3 &&
         (static_cast<unsigned char>(text[text.size() - 1 - n_following]) & 0xC0) == 0x80) {
    ++n_following;
  }
  if (n_following == text.size()) return false;
  const auto lead = static_cast<unsigned char>(text[text.size() - 1 - n_following]);
  const size_t wanted = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
  return n_following < wanted;
}

// Marks at the end of a word that more audio may change.
constexpr std::array<std::string_view, 23> kMarks = {".",  ",",  "!", "?", ":",  ";",  "-",  "\"",
                                                     "'",  ")",  "]", "}", "。", "，", "！", "？",
                                                     "：", "、", "…", "—", "–",  "”",  "’"};

size_t bytes_of_marks(std::string_view text) {
  const size_t n = text.size();
  while (true) {
    const auto mark = std::ranges::find_if(
        kMarks, [&](std::string_view candidate) { return text.ends_with(candidate); });
    if (mark == kMarks.end()) return n - text.size();
    text.remove_suffix(mark->size());
  }
}

// `ends`: bytes of the word up to the end of each of its tokens, the last one at end_token.
void set_stem(CaptionWord& word, std::span<const size_t> ends) {
  const std::string_view text = word.text;
  const size_t least = text.size() - bytes_of_marks(text);
  word.stem_bytes = word.stem_end_token = 0;
  if (text.find_first_not_of(' ') >= least) return;
  // Marks in a token with letters are part of the stem.
  const auto stem = std::ranges::find_if(
      ends, [&](size_t end) { return end >= least && !ends_in_the_middle(text.substr(0, end)); });
  if (stem == ends.end()) return;
  word.stem_bytes = *stem;
  word.stem_end_token = word.end_token - static_cast<size_t>(ends.end() - stem) + 1;
}

// Letters and digits, for comparing words.
std::string folded(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || std::isalnum(byte)) letters += static_cast<char>(std::tolower(byte));
  }
  return letters.empty() ? std::string(text) : letters;
}

bool begins_word(std::string_view token, std::string_view word, bool by_character) {
  if (word.empty() || ends_in_the_middle(word)) return false;
  return token.starts_with(' ') || by_character;
}

// Shares the time from start_s to end_s between the words.
void deal_out(std::span<CaptionWord> words, double start_s, double end_s) {
  size_t total = 0;
  for (const CaptionWord& word : words) total += word.text.size();
  if (total == 0) return;
  const double per_byte = std::max(0.0, end_s - start_s) / static_cast<double>(total);
  size_t before = 0;
  for (CaptionWord& word : words) {
    word.start_s = start_s + per_byte * static_cast<double>(before);
    before += word.text.size();
    word.end_s = start_s + per_byte * static_cast<double>(before);
  }
}

}  // namespace

std::vector<CaptionWord> caption_words(std::span<const int32_t> guess, const CaptionTokens& tokens,
                                       double offset_s, double end_s) {
  std::vector<CaptionWord> words;
  std::vector<size_t> word_ends;  // bytes of the last word up to the end of each of its tokens
  size_t segment_begin = 0;       // index in words
  double start_s = offset_s;
  const auto close = [&](double at_s) {
    deal_out(std::span(words).subspan(segment_begin), start_s, at_s);
    segment_begin = words.size();
  };
  for (size_t i = 0; i < guess.size(); ++i) {
    const int32_t id = guess[i];
    if (id >= tokens.timestamp_begin) {
      const double at_s = offset_s + kTimestampSeconds * (id - tokens.timestamp_begin);
      close(at_s);
      start_s = at_s;
      continue;
    }
    if (id >= tokens.end_of_text) continue;
    const std::string_view bytes = tokens.bytes_of(id);
    const bool opens_segment = words.size() == segment_begin;
    const bool is_new = i == tokens.n_given && i > 0;
    if (opens_segment || is_new || begins_word(bytes, words.back().text, tokens.by_character)) {
      words.emplace_back();
      words.back().opens_segment = opens_segment;
    }
    CaptionWord& word = words.back();
    word.text += bytes;
    word.end_token = i + 1;
    if (word.text.size() == bytes.size()) word_ends.clear();
    word_ends.push_back(word.text.size());
    set_stem(word, word_ends);
  }
  close(std::max(start_s, end_s));
  return words;
}

void leave_marks_open(std::vector<CaptionWord>& words) {
  while (!words.empty() && words.back().stem_bytes == 0) words.pop_back();
  if (words.empty()) return;
  CaptionWord& last = words.back();
  last.text.resize(last.stem_bytes);
  last.end_token = last.stem_end_token;
}

std::vector<CaptionWord> LocalAgreement::agree(std::span<const CaptionWord> words, double end_s,
                                               double patience_s) {
  size_t n = 0;
  // A guess cannot know what its audio did not contain. A word that one of them doubts needs more
  // audio after it.
  const auto was_heard = [&](size_t i) {
    const double probability = std::min(words[i].probability, previous_[i].probability);
    const double more_s =
        probability < policy_.doubtful_word_probability ? policy_.doubtful_word_delay_s : 0;
    return words[i].end_s + more_s <= previous_end_s_;
  };
  const size_t n_both = std::min(words.size(), previous_.size());
  while (n < n_both && words[n].text == previous_[n].text && was_heard(n)) ++n;
  if (n < n_both && words[n].stem() == previous_[n].stem() && was_heard(n)) ++n;
  previous_end_s_ = end_s;
  while (n < words.size() && words[n].end_s < end_s - patience_s) ++n;
  // An incomplete character is not a word.
  while (n > 0 && ends_in_the_middle(words[n - 1].text)) --n;
  std::vector<CaptionWord> agreed(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(n));
  leave_marks_open(agreed);
  previous_.clear();
  if (!agreed.empty()) {
    // The remaining marks begin the words of the next guess.
    const CaptionWord& last = words[agreed.size() - 1];
    if (last.text.size() > last.stem_bytes) {
      CaptionWord& marks = previous_.emplace_back();
      marks.text = last.text.substr(last.stem_bytes);
    }
  }
  previous_.insert(previous_.end(), words.begin() + static_cast<std::ptrdiff_t>(agreed.size()),
                   words.end());
  return agreed;
}

ShownPart find_shown(std::span<const CaptionWord> shown, std::span<const CaptionWord> whole) {
  const size_t n_rows = shown.size() + 1, n_columns = whole.size() + 1;
  std::vector<std::string> shown_letters, whole_letters;
  for (const CaptionWord& word : shown) shown_letters.push_back(folded(word.text));
  for (const CaptionWord& word : whole) whole_letters.push_back(folded(word.text));
  std::vector<size_t> distances(n_rows * n_columns);  // edit distances between the first words of
                                                      // both
  const auto distance = [&](size_t i, size_t j) -> size_t& { return distances[i * n_columns + j]; };
  const auto paired = [&](size_t i, size_t j) {
    return distance(i - 1, j - 1) + (shown_letters[i - 1] == whole_letters[j - 1] ? 0 : 1);
  };
  for (size_t i = 0; i < n_rows; ++i) {
    for (size_t j = 0; j < n_columns; ++j) {
      size_t& least = distance(i, j) = i + j;
      if (i > 0) least = std::min(least, distance(i - 1, j) + 1);
      if (j > 0) least = std::min(least, distance(i, j - 1) + 1);
      if (i > 0 && j > 0) least = std::min(least, paired(i, j));
    }
  }
  size_t i = shown.size(), j = whole.size();
  double apart_s = std::numeric_limits<double>::infinity();
  const auto consider = [&](size_t row, size_t column) {
    const double gap_s = row == 0 || column == 0
                             ? std::numeric_limits<double>::max()
                             : std::abs(shown[row - 1].end_s - whole[column - 1].end_s);
    const size_t here = distance(row, column), best = distance(i, j);
    if (here > best || (here == best && gap_s >= apart_s)) return;
    i = row;
    j = column;
    apart_s = gap_s;
  };
  for (size_t column = 0; column < n_columns; ++column) consider(shown.size(), column);
  for (size_t row = 0; row < n_rows; ++row) consider(row, whole.size());

  ShownPart part;
  part.n_whole = j;
  part.stands_for.resize(i);
  while (i > 0) {
    if (j > 0 && distance(i, j) == paired(i, j)) {
      part.stands_for[--i] = --j;
    } else if (j > 0 && distance(i, j) == distance(i, j - 1) + 1) {
      --j;
    } else {
      part.stands_for[--i] = j > 0 ? j - 1 : 0;
    }
  }
  return part;
}

std::vector<int32_t> tokens_of_next_window(std::span<const int32_t> tokens, uint64_t advance_frames,
                                           int32_t timestamp_begin) {
  const auto advance = static_cast<int32_t>(advance_frames / kFramesPerTimestamp);
  std::vector<int32_t> carried;
  for (const int32_t token : tokens) {
    const bool is_timestamp = token >= timestamp_begin;
    if (is_timestamp && carried.size() == 1) carried.clear();
    if (!is_timestamp && carried.empty()) carried.push_back(timestamp_begin);
    carried.push_back(is_timestamp ? std::max(timestamp_begin, token - advance) : token);
  }
  return carried;
}

}  // namespace vesper

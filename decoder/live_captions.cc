#include "decoder/live_captions.h"

#include <algorithm>

#include "decoder/window_segments.h"

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

bool begins_word(std::string_view token, std::string_view word, bool by_character) {
  if (word.empty() || ends_in_the_middle(word)) return false;
  return token.starts_with(' ') || by_character;
}

// Deals the time from start_s to end_s out to the words.
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
  size_t segment_begin = 0;  // of words
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
    if (opens_segment || begins_word(bytes, words.back().text, tokens.by_character)) {
      words.emplace_back();
      words.back().opens_segment = opens_segment;
    }
    words.back().text += bytes;
    words.back().end_token = i + 1;
  }
  close(std::max(start_s, end_s));
  return words;
}

size_t LocalAgreement::agree(std::span<const CaptionWord> words, double end_s, double patience_s) {
  size_t n = 0;
  while (n < words.size() && n < previous_.size() && words[n].text == previous_[n]) ++n;
  while (n < words.size() && words[n].end_s < end_s - patience_s) ++n;
  // A character that is not complete is not a word yet.
  while (n > 0 && ends_in_the_middle(words[n - 1].text)) --n;
  previous_.clear();
  for (const CaptionWord& word : words.subspan(n)) previous_.push_back(word.text);
  return n;
}

}  // namespace vesper

#include "decoder/words/word_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "decoder/transcript/segment_cutting.h"
#include "decoder/transcript/text_lines.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

// Complete characters of valid UTF-8.
std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  const auto continues = [&](size_t i) { return (text[i] & 0xc0) == 0x80; };
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = begin + 1;
    while (end < text.size() && continues(end)) ++end;
    characters.push_back(text.substr(begin, end - begin));
  }
  return characters;
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kAsciiPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::string_view kSentenceEnds = ".。!！?？";

// Whether `text` is a substring of `marks`, the reference's test of punctuation (also true for
// empty text).
bool is_among(std::string_view text, std::string_view marks) {
  return marks.find(valid_utf8(text)) != std::string_view::npos;
}

// Joins tokens until their characters are complete or invalid.
std::vector<TokenWord> split_characters(std::span<const std::string_view> tokens) {
  std::string all;
  for (std::string_view token : tokens) all += token;
  const std::string valid = valid_utf8(all);
  const std::vector<std::string_view> expected = characters_of(valid);
  std::vector<TokenWord> words;
  TokenWord word;
  size_t n_done = 0;  // of the expected characters
  for (size_t i = 0; i < tokens.size(); ++i) {
    word.text += tokens[i];
    ++word.n_tokens;
    const std::string spelled = valid_utf8(word.text);
    const std::vector<std::string_view> found = characters_of(spelled);
    const auto broken =
        static_cast<size_t>(std::find(found.begin(), found.end(), kReplacement) - found.begin());
    const bool whole = broken == found.size() || (n_done + broken < expected.size() &&
                                                  expected[n_done + broken] == kReplacement);
    if (!whole && i + 1 < tokens.size()) continue;
    n_done += found.size();
    words.push_back(std::move(word));
    word = {};
  }
  return words;
}

// Rounds to 0.01 s, like the reference.
double rounded(double seconds) { return std::nearbyint(seconds * 100) / 100; }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// The usual duration of words in a window, and the longest one beside a silence.
struct UsualDuration {
  double median_s = 0;
  double most_s() const { return 2 * median_s; }
};

UsualDuration usual_duration(const std::vector<WordTiming>& words) {
  constexpr double kLongestMedian = 0.7;
  std::vector<double> durations;
  for (const WordTiming& word : words) {
    if (word.end_s != word.start_s) durations.push_back(word.end_s - word.start_s);
  }
  return {std::min(kLongestMedian, median(std::move(durations)))};
}

// The silence after a sentence is part of its full stop or of the next word.
void shorten_at_sentence_ends(std::vector<WordTiming>& words, const UsualDuration& usual) {
  if (usual.median_s == 0) return;
  for (size_t i = 1; i < words.size(); ++i) {
    WordTiming& word = words[i];
    if (!(word.end_s - word.start_s > usual.most_s())) continue;
    if (is_among(word.text, kSentenceEnds)) {
      word.end_s = word.start_s + usual.most_s();
    } else if (is_among(words[i - 1].text, kSentenceEnds)) {
      word.start_s = word.end_s - usual.most_s();
    }
  }
}

// The first words after a pause and the last ones before it must not fill it.
void fit_to_segment(Segment& segment, double last_speech_s, const UsualDuration& usual) {
  constexpr double kSlack = 0.5;
  std::vector<Word>& words = segment.words;
  Word& first = words.front();
  const bool after_pause = first.end_s - last_speech_s > usual.median_s * 4;
  if (after_pause && (first.end_s - first.start_s > usual.most_s() ||
                      (words.size() > 1 && words[1].end_s - first.start_s > 2 * usual.most_s()))) {
    if (words.size() > 1 && words[1].end_s - words[1].start_s > usual.most_s()) {
      first.end_s = words[1].start_s =
          std::max(words[1].end_s / 2, words[1].end_s - usual.most_s());
    }
    first.start_s = std::max(0.0, first.end_s - usual.most_s());
  }
  if (segment.start_s < first.end_s && segment.start_s - kSlack > first.start_s) {
    first.start_s = std::max(0.0, std::min(first.end_s - usual.median_s, segment.start_s));
  } else {
    segment.start_s = first.start_s;
  }
  Word& last = words.back();
  if (segment.end_s > last.start_s && segment.end_s + kSlack < last.end_s) {
    last.end_s = std::max(last.start_s + usual.median_s, segment.end_s);
  } else {
    segment.end_s = last.end_s;
  }
}

}  // namespace

bool is_written_without_spaces(std::string_view language) {
  constexpr std::array<std::string_view, 6> kLanguages = {"zh", "ja", "th", "lo", "my", "yue"};
  return std::find(kLanguages.begin(), kLanguages.end(), language) != kLanguages.end();
}

std::vector<TokenWord> split_words(std::span<const std::string_view> tokens, bool by_character) {
  std::vector<TokenWord> pieces = split_characters(tokens);
  if (by_character) return pieces;
  std::vector<TokenWord> words;
  for (TokenWord& piece : pieces) {
    const bool begins = words.empty() || piece.text.starts_with(' ') ||
                        is_among(trimmed(piece.text), kAsciiPunctuation);
    if (begins) {
      words.push_back(std::move(piece));
    } else {
      words.back().text += piece.text;
      words.back().n_tokens += piece.n_tokens;
    }
  }
  return words;
}

std::vector<WordTiming> time_words(const std::vector<TokenWord>& words,
                                   std::span<const uint32_t> positions,
                                   std::span<const float> probabilities) {
  std::vector<WordTiming> timings;
  size_t begin = 0;
  for (const TokenWord& word : words) {
    const size_t end = begin + word.n_tokens;
    const double sum =
        std::accumulate(probabilities.begin() + static_cast<std::ptrdiff_t>(begin),
                        probabilities.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
    timings.push_back({word.text, word.n_tokens, positions[begin] * kSecondsPerPosition,
                       positions[end] * kSecondsPerPosition, sum / word.n_tokens});
    begin = end;
  }
  return timings;
}

void merge_punctuation(std::vector<WordTiming>& words, const Punctuation& punctuation) {
  if (words.empty()) return;
  const auto take = [](WordTiming& to, WordTiming& from, bool in_front) {
    to.text = in_front ? from.text + to.text : to.text + from.text;
    to.n_tokens += from.n_tokens;
    from.text.clear();
    from.n_tokens = 0;
  };
  for (size_t following = words.size() - 1, i = following; i-- > 0;) {
    const std::string& text = words[i].text;
    if (text.starts_with(' ') && is_among(trimmed(text), punctuation.prepended)) {
      take(words[following], words[i], true);
    } else {
      following = i;
    }
  }
  for (size_t previous = 0, i = 1; i < words.size(); ++i) {
    if (!words[previous].text.ends_with(' ') && is_among(words[i].text, punctuation.appended)) {
      take(words[previous], words[i], false);
    } else {
      previous = i;
    }
  }
}

void add_words(std::vector<Segment>& segments, std::vector<WordTiming> words, int32_t end_of_text,
               double offset_s, double last_speech_s, const Punctuation& punctuation) {
  const UsualDuration usual = usual_duration(words);
  shorten_at_sentence_ends(words, usual);
  merge_punctuation(words, punctuation);
  auto word = words.begin();
  for (Segment& segment : segments) {
    const auto n_text =
        static_cast<uint32_t>(std::count_if(segment.tokens.begin(), segment.tokens.end(),
                                            [&](int32_t token) { return token < end_of_text; }));
    segment.words.clear();
    for (uint32_t n_taken = 0; word != words.end() && n_taken < n_text; ++word) {
      n_taken += word->n_tokens;
      if (word->text.empty()) continue;
      segment.words.push_back({rounded(offset_s + word->start_s), rounded(offset_s + word->end_s),
                               word->text, word->probability, word->n_tokens});
    }
    if (segment.words.empty()) continue;
    fit_to_segment(segment, last_speech_s, usual);
    last_speech_s = segment.end_s;
  }
}

std::vector<Word> split_at_tokens(const std::vector<Word>& words,
                                  std::span<const std::string_view> tokens) {
  std::vector<Word> parts;
  for (const Word& word : words) {
    const std::span<const std::string_view> own =
        tokens.first(std::min<size_t>(word.n_tokens, tokens.size()));
    tokens = tokens.subspan(own.size());
    std::string spelled;
    for (std::string_view token : own) spelled += token;
    if (spelled != word.text) {
      parts.push_back(word);
      continue;
    }
    const double per_character_s =
        (word.end_s - word.start_s) /
        static_cast<double>(std::max<size_t>(1, count_characters(spelled)));
    double start_s = word.start_s;
    for (TokenWord& piece : split_characters(own)) {
      const double end_s =
          start_s + per_character_s * static_cast<double>(count_characters(piece.text));
      parts.push_back({start_s, end_s, std::move(piece.text), word.probability, piece.n_tokens});
      start_s = end_s;
    }
    if (!own.empty()) parts.back().end_s = word.end_s;
  }
  return parts;
}

double end_of_speech_s(const std::vector<Segment>& segments) {
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    if (!segment->words.empty()) return segment->words.back().end_s;
  }
  return segments.back().end_s;
}

}  // namespace vesper

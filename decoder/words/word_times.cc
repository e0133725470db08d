#include "decoder/words/word_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "decoder/transcript/segment_cutting.h"
#include "decoder/transcript/text_lines.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

// Half the width of the median filter.
constexpr uint32_t kReach = 3;

// The median of seven columns for each position: a network of 13 exchanges that puts it into column
// 3 (Devillard, "Fast median search", 1998), vectorized over columns.
void medians_of_7(const float* in, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) {
    float v[7];
    for (size_t j = 0; j < 7; ++j) v[j] = in[i + j];
    const auto exchange = [&](size_t low, size_t high) {
      const float a = v[low], b = v[high];
      v[low] = a < b ? a : b;
      v[high] = a < b ? b : a;
    };
    exchange(0, 5), exchange(0, 3), exchange(1, 6), exchange(2, 4);
    exchange(0, 1), exchange(3, 5), exchange(2, 6), exchange(2, 3);
    exchange(3, 6), exchange(4, 5), exchange(1, 4), exchange(1, 3);
    exchange(3, 4);
    out[i] = v[3];
  }
}

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

void standardize_over_rows(const HeadWeights& weights) {
  const uint32_t n = weights.n_positions;
  std::vector<float> mean(n), factor(n);
  for (uint32_t h = 0; h < weights.n_heads; ++h) {
    const auto row = [&](uint32_t r) {
      return weights.data + h * weights.head_stride + r * weights.row_stride;
    };
    std::fill(mean.begin(), mean.end(), 0.0f);
    std::fill(factor.begin(), factor.end(), 0.0f);
    for (uint32_t r = 0; r < weights.n_rows; ++r) {
      const float* x = row(r);
      for (uint32_t t = 0; t < n; ++t) mean[t] += x[t];
    }
    const float n_rows = static_cast<float>(weights.n_rows);
    for (float& m : mean) m /= n_rows;
    for (uint32_t r = 0; r < weights.n_rows; ++r) {
      const float* x = row(r);
      for (uint32_t t = 0; t < n; ++t) factor[t] += (x[t] - mean[t]) * (x[t] - mean[t]);
    }
    for (float& f : factor) f = f > 0 ? 1 / std::sqrt(f / n_rows) : 0.0f;
    for (uint32_t r = 0; r < weights.n_rows; ++r) {
      float* x = row(r);
      for (uint32_t t = 0; t < n; ++t) x[t] = (x[t] - mean[t]) * factor[t];
    }
  }
}

void median_filter_7(std::span<const float> in, float* out) {
  const size_t n = in.size();
  if (n <= kReach) {
    std::copy(in.begin(), in.end(), out);
    return;
  }
  medians_of_7(in.data(), n > 2 * kReach ? n - 2 * kReach : 0, out + kReach);
  const auto at_edge = [&](size_t i) {
    std::array<float, 2 * kReach + 1> near{};
    for (size_t j = 0; j < near.size(); ++j) {
      // The edge is not repeated.
      auto index = static_cast<std::ptrdiff_t>(i + j) - static_cast<std::ptrdiff_t>(kReach);
      const auto last = static_cast<std::ptrdiff_t>(n) - 1;
      if (index < 0) index = -index;
      if (index > last) index = 2 * last - index;
      near[j] = in[static_cast<size_t>(index)];
    }
    std::sort(near.begin(), near.end());
    out[i] = near[kReach];
  };
  for (size_t i = 0; i < n; ++i) {
    if (i == kReach && n > 2 * kReach) i = n - kReach;
    at_edge(i);
  }
}

std::vector<uint32_t> first_positions(std::span<const float> matrix, uint32_t n_rows,
                                      uint32_t n_positions) {
  // The cost of the best path to each row, at the previous and at this position. Sums are rounded
  // to f32 at every step like the reference's, because the choice of a path may depend on it.
  constexpr float kNever = std::numeric_limits<float>::infinity();
  std::vector<float> before(n_rows + 1, kNever), here(n_rows + 1, kNever);
  before[0] = 0;
  enum Step : uint8_t { kBoth, kRow, kPosition };
  std::vector<Step> steps(size_t{n_rows} * n_positions);
  for (uint32_t t = 0; t < n_positions; ++t) {
    here[0] = kNever;
    Step* const step = steps.data() + size_t{t} * n_rows;
    for (uint32_t r = 0; r < n_rows; ++r) {
      const float both = before[r], row = here[r], position = before[r + 1];
      float cost = position;
      step[r] = kPosition;
      if (both < row && both < position) {
        cost = both;
        step[r] = kBoth;
      } else if (row < both && row < position) {
        cost = row;
        step[r] = kRow;
      }
      here[r + 1] = static_cast<float>(double{cost} - double{matrix[size_t{r} * n_positions + t]});
    }
    std::swap(before, here);
  }
  std::vector<uint32_t> first(n_rows, 0);
  for (uint32_t r = n_rows - 1, t = n_positions - 1;;) {
    first[r] = t;
    if (r == 0) break;  // the first row starts at position 0
    const Step step = t == 0 ? kRow : steps[size_t{t} * n_rows + r];
    if (step != kPosition) --r;
    if (step != kRow) --t;
  }
  first[0] = 0;
  return first;
}

std::vector<uint32_t> align_rows(const HeadWeights& weights, uint32_t first_row, uint32_t n_rows) {
  standardize_over_rows(weights);
  const uint32_t n = weights.n_positions;
  std::vector<float> matrix(size_t{n_rows} * n, 0.0f), filtered(n);
  for (uint32_t h = 0; h < weights.n_heads; ++h) {
    for (uint32_t r = 0; r < n_rows; ++r) {
      const float* row =
          weights.data + h * weights.head_stride + (first_row + r) * weights.row_stride;
      median_filter_7({row, n}, filtered.data());
      float* sum = matrix.data() + size_t{r} * n;
      for (uint32_t t = 0; t < n; ++t) sum[t] += filtered[t];
    }
  }
  for (float& x : matrix) x /= static_cast<float>(weights.n_heads);
  return first_positions(matrix, n_rows, n);
}

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

#include "decoder/words/word_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace vesper::word_times_test {
namespace {

using testing::ElementsAre;

TEST(StandardizeOverRows, GivesMeanZeroAndDeviationOne) {
  constexpr uint32_t kHeads = 2, kRows = 5, kPositions = 7;
  constexpr size_t kRowStride = 9, kHeadStride = 50;
  std::vector<float> data(kHeads * kHeadStride);
  std::mt19937 random(1);
  for (float& x : data) x = std::uniform_real_distribution<float>(0, 1)(random);
  for (uint32_t r = 0; r < kRows; ++r) data[r * kRowStride + 3] = 0.25f;  // constant
  const std::vector<float> before = data;
  standardize_over_rows({data.data(), kHeadStride, kRowStride, kHeads, kRows, kPositions});
  for (uint32_t h = 0; h < kHeads; ++h) {
    for (uint32_t t = 0; t < kPositions; ++t) {
      double sum = 0, squares = 0;
      for (uint32_t r = 0; r < kRows; ++r) {
        const double x = data[h * kHeadStride + r * kRowStride + t];
        sum += x;
        squares += x * x;
      }
      EXPECT_NEAR(sum, 0, 1e-5);
      EXPECT_NEAR(squares / kRows, h == 0 && t == 3 ? 0 : 1, 1e-4);
    }
  }
  // Elements that are not positions are not changed.
  EXPECT_EQ(data[kPositions], before[kPositions]);
}

TEST(MedianFilter, IsTheMedianOfSevenWithMirroredEnds) {
  std::mt19937 random(2);
  for (const size_t n : {1u, 3u, 4u, 5u, 6u, 7u, 8u, 100u, 1500u}) {
    std::vector<float> in(n), found(n, std::numeric_limits<float>::quiet_NaN());
    for (float& x : in) x = std::normal_distribution<float>()(random);
    median_filter_7(in, found.data());
    for (size_t i = 0; i < n; ++i) {
      if (n < 4) {
        EXPECT_EQ(found[i], in[i]);
        continue;
      }
      std::vector<float> near;
      for (int j = -3; j <= 3; ++j) {
        int at = std::abs(static_cast<int>(i) + j);
        if (at >= static_cast<int>(n)) at = 2 * (static_cast<int>(n) - 1) - at;
        near.push_back(in[static_cast<size_t>(at)]);
      }
      std::sort(near.begin(), near.end());
      EXPECT_EQ(found[i], near[3]) << n << ", " << i;
    }
  }
}

// The greatest sum over all paths, and the positions at which that path enters each row.
std::pair<double, std::vector<uint32_t>> best_way(const std::vector<float>& matrix, uint32_t n_rows,
                                                  uint32_t n_positions) {
  std::pair<double, std::vector<uint32_t>> best{-1e300, {}};
  std::vector<uint32_t> entered(n_rows);
  std::function<void(uint32_t, uint32_t, double)> walk = [&](uint32_t r, uint32_t t, double sum) {
    sum += matrix[r * n_positions + t];
    if (r + 1 == n_rows && t + 1 == n_positions) {
      if (sum > best.first) best = {sum, entered};
      return;
    }
    if (t + 1 < n_positions) walk(r, t + 1, sum);
    if (r + 1 == n_rows) return;
    entered[r + 1] = t;
    walk(r + 1, t, sum);
    if (t + 1 == n_positions) return;
    entered[r + 1] = t + 1;
    walk(r + 1, t + 1, sum);
  };
  walk(0, 0, 0);
  return best;
}

TEST(FirstPositions, AreThoseOfTheBestPath) {
  std::mt19937 random(3);
  for (uint32_t n_rows = 1; n_rows <= 5; ++n_rows) {
    for (uint32_t n_positions = 1; n_positions <= 6; ++n_positions) {
      std::vector<float> matrix(n_rows * n_positions);
      for (float& x : matrix) x = std::normal_distribution<float>()(random);
      EXPECT_EQ(first_positions(matrix, n_rows, n_positions),
                best_way(matrix, n_rows, n_positions).second)
          << n_rows << " x " << n_positions;
    }
  }
}

// openai-whisper, timing.py: dtw_cpu takes a step that is strictly the cheapest, else the next
// position.
TEST(FirstPositions, StayInTheRowWhenStepsAreEquallyGood) {
  EXPECT_THAT(first_positions(std::vector<float>{0, 1, 1, 0}, 2, 2), ElementsAre(0, 0));
}

TEST(FirstPositions, StayInRangeForNaN) {
  const std::vector<float> matrix(12, std::numeric_limits<float>::quiet_NaN());
  for (uint32_t position : first_positions(matrix, 4, 3)) EXPECT_LT(position, 3u);
}

TEST(AlignRows, FollowsTheAttentionOfTheHeads) {
  constexpr uint32_t kHeads = 3, kRows = 6, kPositions = 60;
  std::vector<float> data(kHeads * kRows * kPositions, 0.001f);
  // Row r attends to positions 10 r to 10 r + 9.
  for (uint32_t h = 0; h < kHeads; ++h) {
    for (uint32_t r = 0; r < kRows; ++r) {
      for (uint32_t t = 0; t < 10; ++t) data[(h * kRows + r) * kPositions + 10 * r + t] = 0.1f;
    }
  }
  EXPECT_THAT(
      align_rows({data.data(), kRows * kPositions, kPositions, kHeads, kRows, kPositions}, 1, 4),
      ElementsAre(0, 20, 30, 40));
}

std::vector<std::string> texts(const std::vector<TokenWord>& words) {
  std::vector<std::string> out;
  for (const TokenWord& word : words)
    out.push_back(word.text + "/" + std::to_string(word.n_tokens));
  return out;
}

TEST(SplitWords, SplitsAtSpacesAndPunctuation) {
  const std::vector<std::string_view> tokens = {"He", "llo", ",", " wor", "ld",
                                                "'s", ".",   " ", "A"};
  EXPECT_THAT(texts(split_words(tokens, false)),
              ElementsAre("Hello/2", ",/1", " world's/3", "./1", " A/2"));
}

TEST(SplitWords, KeepsTheTokensOfACharacterTogether) {
  // "砸" is E7 A0 B8, here in two tokens.
  const std::vector<std::string_view> tokens = {"\xE7\xA0", "\xB8", "自己", " x"};
  EXPECT_THAT(texts(split_words(tokens, true)), ElementsAre("砸/2", "自己/1", " x/1"));
  EXPECT_THAT(texts(split_words(tokens, false)), ElementsAre("砸自己/3", " x/1"));
}

TEST(SplitWords, EndsWordsAtInvalidCharacters) {
  const std::vector<std::string_view> broken = {" a", "\xE7", " b", " c"};
  EXPECT_THAT(texts(split_words(broken, true)), ElementsAre(" a/1", "\xE7/1", " b/1", " c/1"));
  const std::vector<std::string_view> unfinished = {" a", "\xE7", "\xA0"};
  EXPECT_THAT(texts(split_words(unfinished, true)), ElementsAre(" a/1", "\xE7/1", "\xA0/1"));
}

TEST(SplitWords, KnowsLanguagesWithoutSpaces) {
  EXPECT_TRUE(is_written_without_spaces("zh"));
  EXPECT_TRUE(is_written_without_spaces("yue"));
  EXPECT_FALSE(is_written_without_spaces("en"));
}

TEST(TimeWords, UsesTimesAndMeanProbabilityOfTokens) {
  const std::vector<TokenWord> words = {{" a", 1}, {" bc", 2}};
  const std::vector<uint32_t> positions = {5, 10, 11, 20};
  const std::vector<float> probabilities = {0.5f, 0.25f, 0.75f};
  const std::vector<WordTiming> timed = time_words(words, positions, probabilities);
  ASSERT_EQ(timed.size(), 2u);
  EXPECT_DOUBLE_EQ(timed[0].start_s, 0.1);
  EXPECT_DOUBLE_EQ(timed[0].end_s, 0.2);
  EXPECT_DOUBLE_EQ(timed[0].probability, 0.5);
  EXPECT_DOUBLE_EQ(timed[1].start_s, 0.2);
  EXPECT_DOUBLE_EQ(timed[1].end_s, 0.4);
  EXPECT_DOUBLE_EQ(timed[1].probability, 0.5);
}

std::vector<WordTiming> of(std::initializer_list<const char*> texts) {
  std::vector<WordTiming> words;
  double start_s = 0;
  for (const char* text : texts) {
    words.push_back({text, 1, start_s, start_s + 0.2, 1});
    start_s += 0.2;
  }
  return words;
}

std::vector<std::string> merged(std::initializer_list<const char*> texts,
                                const Punctuation& punctuation = {}) {
  std::vector<WordTiming> words = of(texts);
  merge_punctuation(words, punctuation);
  std::vector<std::string> out;
  for (const WordTiming& word : words) {
    if (word.text.empty()) {
      EXPECT_EQ(word.n_tokens, 0u);
      continue;
    }
    out.push_back(word.text + "/" + std::to_string(word.n_tokens));
  }
  return out;
}

TEST(MergePunctuation, JoinsPunctuationToItsWord) {
  EXPECT_THAT(merged({" \"", "Yes", ",", "\"", " he", " said", "."}),
              ElementsAre(" \"Yes,\"/4", " he/1", " said./2"));
  EXPECT_THAT(merged({" (", " [", "a", "]", ")", "."}), ElementsAre(" ( [a])./6"));
  EXPECT_THAT(merged({"好", "。", "的"}), ElementsAre("好。/2", "的/1"));
  EXPECT_TRUE(merged({}).empty());
}

TEST(MergePunctuation, UsesTheGivenPunctuation) {
  EXPECT_THAT(merged({" \"", "a", ".", " b"}, {.prepended = "", .appended = "x"}),
              ElementsAre(" \"/1", "a/1", "./1", " b/1"));
  EXPECT_THAT(merged({" #", "a", "~", " b"}, {.prepended = "#", .appended = "~"}),
              ElementsAre(" #a~/3", " b/1"));
}

TEST(MergePunctuation, KeepsTheTimesOfTheWord) {
  std::vector<WordTiming> words = of({" a", "."});
  merge_punctuation(words, {});
  EXPECT_DOUBLE_EQ(words[0].end_s, 0.2);
}

constexpr int32_t kEndOfText = 1000;

Segment segment_of(double start_s, double end_s, int n_tokens) {
  Segment segment;
  segment.start_s = start_s;
  segment.end_s = end_s;
  segment.tokens.assign(static_cast<size_t>(n_tokens), 1);
  segment.tokens.insert(segment.tokens.begin(), kEndOfText + 5);
  segment.tokens.push_back(kEndOfText + 9);
  return segment;
}

TEST(AddWords, GivesEachSegmentItsWordsAndTheirEnds) {
  std::vector<Segment> segments = {segment_of(10.0, 10.5, 2), segment_of(10.5, 11.0, 2)};
  std::vector<WordTiming> words = of({" a", " b", " c", " d"});
  for (WordTiming& word : words) word.probability = 0.5;
  add_words(segments, words, kEndOfText, 10, 9.9, {});
  ASSERT_EQ(segments[0].words.size(), 2u);
  ASSERT_EQ(segments[1].words.size(), 2u);
  EXPECT_EQ(segments[1].words[0].text, " c");
  EXPECT_DOUBLE_EQ(segments[1].words[0].start_s, 10.4);
  EXPECT_DOUBLE_EQ(segments[1].words[0].end_s, 10.6);
  EXPECT_DOUBLE_EQ(segments[1].words[0].probability, 0.5);
  EXPECT_DOUBLE_EQ(segments[0].start_s, 10.0);
  EXPECT_DOUBLE_EQ(segments[0].end_s, 10.4);
  EXPECT_DOUBLE_EQ(segments[1].start_s, 10.4);
  EXPECT_DOUBLE_EQ(segments[1].end_s, 10.8);
  EXPECT_DOUBLE_EQ(end_of_speech_s(segments), 10.8);
}

TEST(AddWords, ShortensAFullStopAndTheWordAfterIt) {
  std::vector<Segment> segments = {segment_of(0, 9, 5)};
  std::vector<WordTiming> words = of({" a", " b", ".", " c", " d"});
  words[2].end_s = words[3].start_s = 3;  // the stop lasts 2.6 s
  words[3].end_s = words[4].start_s = 5;  // so does the next word
  words[4].end_s = 5.2;
  add_words(segments, words, kEndOfText, 0, 0, {});
  ASSERT_EQ(segments[0].words.size(), 4u);
  EXPECT_EQ(segments[0].words[1].text, " b.");
  // The median is 0.2: twice that is the limit.
  EXPECT_DOUBLE_EQ(segments[0].words[2].start_s, 4.6);
  EXPECT_DOUBLE_EQ(segments[0].words[2].end_s, 5.0);
}

TEST(AddWords, ShortensTheFirstWordAfterAPause) {
  std::vector<Segment> segments = {segment_of(3.0, 4, 3)};
  std::vector<WordTiming> words = of({" a", " b", " c"});
  words[0].end_s = words[1].start_s = 3.2;
  words[1].end_s = words[2].start_s = 3.4;
  words[2].end_s = 3.6;
  add_words(segments, words, kEndOfText, 0, 0, {});
  EXPECT_DOUBLE_EQ(segments[0].words[0].start_s, 2.8);  // 3.2 minus twice the median
  EXPECT_DOUBLE_EQ(segments[0].start_s, 2.8);
}

TEST(AddWords, UsesSegmentTimesForLongOuterWords) {
  std::vector<Segment> segments = {segment_of(1.0, 2.0, 3)};
  std::vector<WordTiming> words = of({" a", " b", " c"});
  words[0].start_s = 0.3;
  words[0].end_s = words[1].start_s = 1.2;
  words[1].end_s = words[2].start_s = 1.4;
  words[2].end_s = 4;
  add_words(segments, words, kEndOfText, 0, 1.0, {});
  // The median is min(0.7, 0.9).
  EXPECT_DOUBLE_EQ(segments[0].words[0].start_s, 0.5);
  EXPECT_DOUBLE_EQ(segments[0].start_s, 1.0);
  EXPECT_DOUBLE_EQ(segments[0].words[2].end_s, 2.1);
  EXPECT_DOUBLE_EQ(segments[0].end_s, 2.0);
}

TEST(SplitAtTokens, GivesEachTokenItsShareOfTheWord) {
  const std::vector<Word> words = {
      {1, 2, " abcd", 0.5, 2}, {2, 3, " \xE7\xA0\xB8", 0.5, 3}, {3, 4, " other", 0.5, 1}};
  const std::vector<std::string_view> tokens = {" a", "bcd", " ", "\xE7", "\xA0\xB8", " else"};
  const std::vector<Word> parts = split_at_tokens(words, tokens);
  std::vector<std::string> found;
  for (const Word& part : parts) found.push_back(part.text + "/" + std::to_string(part.n_tokens));
  EXPECT_THAT(found, ElementsAre(" a/1", "bcd/1", " /1", "\xE7\xA0\xB8/2", " other/1"));
  EXPECT_DOUBLE_EQ(parts[0].end_s, 1.4);
  EXPECT_DOUBLE_EQ(parts[1].start_s, 1.4);
  EXPECT_DOUBLE_EQ(parts[1].end_s, 2);
  EXPECT_DOUBLE_EQ(parts[3].end_s, 3);
  EXPECT_EQ(split_at_tokens(words, {}).size(), 3u);
}

TEST(EndOfSpeech, IsTheSegmentEndWithoutWords) {
  EXPECT_DOUBLE_EQ(end_of_speech_s({segment_of(1, 2.5, 0)}), 2.5);
}

}  // namespace
}  // namespace vesper::word_times_test

#include "decoder/windows/attempts/repetition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace vesper::repetition_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Tokens = std::vector<int32_t>;

constexpr int32_t kEot = 1000;

Tokens times(size_t n, const Tokens& round) {
  Tokens tokens;
  for (size_t i = 0; i < n; ++i) tokens.insert(tokens.end(), round.begin(), round.end());
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Tokens kSentence = {11, 12, 13, 14, 15, 16, 17};

TEST(FindLoop, FindsWhereItBeginsAndEndsAndItsPeriod) {
  const auto loop = find_loop(Tokens{1, 2, 3} + times(4, kSentence) + Tokens{4, 5});
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->begin, 3u);
  EXPECT_EQ(loop->end, 3u + 28);
  EXPECT_EQ(loop->period, 7u);
  EXPECT_EQ(loop->n_rounds(), 4u);
}

TEST(FindLoop, CountsAnUnfinishedRoundIn) {
  const auto loop = find_loop(times(5, kSentence) + Tokens{11, 12, 13});
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->end, 38u);
  EXPECT_EQ(loop->n_rounds(), 5u);
}

TEST(FindLoop, TakesTheShortestPeriodOfTheSameStretch) {
  const auto loop = find_loop(Tokens(200, 7));
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->period, 1u);
  EXPECT_EQ(loop->begin, 0u);
  EXPECT_EQ(loop->end, 200u);
}

TEST(FindLoop, LetsPeopleRepeatThemselves) {
  EXPECT_FALSE(find_loop({}));
  EXPECT_FALSE(find_loop(times(3, kSentence)));
  EXPECT_FALSE(find_loop(Tokens{1} + times(9, {5, 6}) + Tokens{2}));  // "no, no, no, ..."
  EXPECT_FALSE(find_loop(Tokens(WindowPolicy{}.loop_tokens - 1, 7)));
  EXPECT_TRUE(find_loop(Tokens(WindowPolicy{}.loop_tokens, 7)));
  Tokens counting(300);
  std::iota(counting.begin(), counting.end(), 0);
  EXPECT_FALSE(find_loop(counting));
}

TEST(FindLoop, TakesTheLongestOfSeveral) {
  const auto loop = find_loop(Tokens(21, 7) + Tokens{1} + Tokens(40, 8) + Tokens{2});
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->begin, 22u);
  EXPECT_EQ(loop->end, 62u);
}

TEST(IsOneLoop, AsksForThreeRoundsThatAreMostOfTheText) {
  EXPECT_TRUE(is_one_loop(times(3, kSentence)));
  EXPECT_TRUE(is_one_loop(Tokens{1} + Tokens(3, 7)));
  EXPECT_FALSE(is_one_loop(Tokens{1, 2} + Tokens(3, 7)));
  EXPECT_FALSE(is_one_loop(times(2, kSentence)));
  EXPECT_FALSE(is_one_loop({}));
}

WindowSegment said(double start_s, const Tokens& text) {
  return {start_s, start_s + 2, Tokens{kEot + 1} + text + Tokens{kEot + 2}};
}

TEST(TakeLoop, TakesTheSegmentsFromTheSecondRoundOn) {
  std::vector<WindowSegment> segments = {said(0, {1, 2, 3})};
  for (int i = 1; i <= 5; ++i) segments.push_back(said(2 * i, kSentence));
  segments.push_back(said(12, {4, 5, 6}));
  const std::vector<WindowSegment> looped = take_loop(segments, kEot);
  ASSERT_EQ(looped.size(), 4u);
  EXPECT_EQ(looped.front().start_s, 4);
  EXPECT_EQ(looped.back().end_s, 12);
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[0].start_s, 0);
  EXPECT_EQ(segments[1].start_s, 2);
  EXPECT_EQ(segments[2].start_s, 12);
}

TEST(TakeLoop, TakesASegmentThatHoldsSeveralRoundsAsAWhole) {
  std::vector<WindowSegment> segments = {said(0, {1, 2, 3}), said(2, times(6, kSentence))};
  EXPECT_EQ(take_loop(segments, kEot).size(), 1u);
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].start_s, 0);
}

TEST(TakeLoop, LeavesAWindowWithoutALoopAlone) {
  std::vector<WindowSegment> segments = {said(0, kSentence), said(2, kSentence)};
  EXPECT_THAT(take_loop(segments, kEot), IsEmpty());
  EXPECT_EQ(segments.size(), 2u);
}

// The figures are those of Python's len(text) / len(zlib.compress(text)), zlib 1.2.13.
TEST(CompressionRatio, IsThatOfZlib) {
  EXPECT_EQ(compression_ratio(""), 0);
  EXPECT_NEAR(compression_ratio("you"), 3.0 / 11, 1e-9);
  std::string loop;
  for (int i = 0; i < 20; ++i) loop += "I'm going to go back. ";
  EXPECT_GT(compression_ratio(loop), 10);
}

}  // namespace
}  // namespace vesper::repetition_test

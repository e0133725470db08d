#include "decoder/transcript/segment_cutting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vesper::segment_cutting_test {
namespace {

using testing::ElementsAre;

constexpr int32_t kEndOfText = 1000, kTimestamp = 2000;

// Each text is a word of 1 s and one token.
Segment spoken(std::initializer_list<const char*> words) {
  Segment segment;
  segment.start_s = 10;
  segment.tokens.push_back(kTimestamp);
  for (const char* text : words) {
    const double start_s = 10 + static_cast<double>(segment.words.size());
    segment.words.push_back({start_s, start_s + 1, text, 0.5, 1});
    segment.text += text;
    segment.tokens.push_back(static_cast<int32_t>(segment.words.size()));
  }
  segment.end_s = segment.words.back().end_s;
  segment.tokens.push_back(kTimestamp + 1);
  return segment;
}

std::vector<std::string> texts(const std::vector<Segment>& segments) {
  std::vector<std::string> out;
  for (const Segment& segment : segments) out.push_back(segment.text);
  return out;
}

std::vector<Segment> cut(const Segment& segment, uint32_t max_length) {
  return cut_segment(segment, words_of(segment), max_length, kEndOfText);
}

TEST(CutSegment, CutsBetweenWords) {
  const std::vector<Segment> pieces =
      cut(spoken({" One", " two", " three,", " extraordinary", " six"}), 9);
  EXPECT_THAT(texts(pieces), ElementsAre(" One two", " three,", " extraordinary", " six"));
  EXPECT_DOUBLE_EQ(pieces[0].start_s, 10);
  EXPECT_DOUBLE_EQ(pieces[0].end_s, 12);
  EXPECT_DOUBLE_EQ(pieces[1].start_s, 12);
  EXPECT_DOUBLE_EQ(pieces[3].end_s, 15);
  EXPECT_EQ(pieces[0].words.size(), 2u);
}

TEST(CutSegment, CountsCharactersNotBytes) {
  EXPECT_THAT(texts(cut(spoken({"砸", "自己", "的", "脚"}), 3)), ElementsAre("砸自己", "的脚"));
}

TEST(CutSegment, DistributesTokens) {
  const std::vector<Segment> pieces = cut(spoken({" One", " two", " three"}), 7);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_THAT(pieces[0].tokens, ElementsAre(kTimestamp, 1, 2));
  EXPECT_THAT(pieces[1].tokens, ElementsAre(3, kTimestamp + 1));
}

TEST(CutSegment, KeepsAShortSegment) {
  const Segment segment = spoken({" One", " two"});
  const std::vector<Segment> pieces = cut(segment, 7);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].text, segment.text);
  EXPECT_EQ(pieces[0].tokens, segment.tokens);
}

TEST(CutSegment, DistributesTimeWithoutWordTimes) {
  Segment segment;
  segment.text = " abcd efgh";
  segment.start_s = 0;
  segment.end_s = 10;
  const std::vector<Segment> pieces = cut(segment, 5);
  ASSERT_THAT(texts(pieces), ElementsAre(" abcd", " efgh"));
  EXPECT_DOUBLE_EQ(pieces[0].end_s, 5);
  EXPECT_DOUBLE_EQ(pieces[1].start_s, 5);
  EXPECT_TRUE(pieces[0].words.empty());
}

TEST(WordsOf, KeepsEveryCharacter) {
  Segment segment;
  segment.end_s = 1;
  for (const char* text : {"", " ", "a", "  a  b ", " é"}) {
    segment.text = text;
    std::string joined;
    for (const Word& word : words_of(segment)) joined += word.text;
    EXPECT_EQ(joined, text);
  }
}

TEST(CutSegment, KeepsAllTextAndTime) {
  const Segment segment = spoken({" I", " am", ", a", " héllo", " wörldly", "one", "!"});
  for (uint32_t length = 1; length < 20; ++length) {
    std::string joined;
    std::vector<int32_t> tokens;
    double last_s = segment.start_s;
    for (const Segment& piece : cut(segment, length)) {
      joined += piece.text;
      tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
      EXPECT_DOUBLE_EQ(piece.start_s, last_s);
      EXPECT_GE(piece.end_s, piece.start_s);
      last_s = piece.end_s;
      if (piece.words.size() > 1) {
        EXPECT_LE(count_characters(piece.text.substr(piece.text.find_first_not_of(' '))), length);
      }
    }
    EXPECT_EQ(joined, segment.text);
    EXPECT_EQ(tokens, segment.tokens);
    EXPECT_DOUBLE_EQ(last_s, segment.end_s);
  }
}

}  // namespace
}  // namespace vesper::segment_cutting_test

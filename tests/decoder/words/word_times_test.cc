#include "decoder/words/word_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vesper::word_times_test {
namespace {

using testing::ElementsAre;

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

#include "decoder/live_captions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace vesper::live_captions_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int32_t kEndOfText = 1000, kTimestamps = 2000;

int32_t at(double seconds) { return kTimestamps + static_cast<int32_t>(seconds * 50 + 0.5); }

CaptionTokens tokens_spelled(std::map<int32_t, std::string>& spelling, bool by_character = false) {
  CaptionTokens tokens;
  tokens.end_of_text = kEndOfText;
  tokens.timestamp_begin = kTimestamps;
  tokens.by_character = by_character;
  tokens.bytes_of = [&](int32_t id) -> std::string_view { return spelling.at(id); };
  return tokens;
}

std::vector<std::string> texts(const std::vector<CaptionWord>& words) {
  std::vector<std::string> texts;
  for (const CaptionWord& word : words) texts.push_back(word.text);
  return texts;
}

TEST(CaptionWords, AreTokensUpToTheNextSpaceWithTimesByTheirLength) {
  std::map<int32_t, std::string> spelling = {{1, " And"}, {2, " so"}, {3, " my"}, {4, " fel"},
                                             {5, "low"},  {6, ","},   {7, " Ask"}};
  const std::vector<int32_t> guess = {at(1), 1, 2, at(2.4), at(3), 3, 4, 5, 6, 1001, 7};
  const auto words = caption_words(guess, tokens_spelled(spelling), 10, 16);
  EXPECT_THAT(texts(words), ElementsAre(" And", " so", " my", " fellow,", " Ask"));
  EXPECT_EQ(words[0].end_token, 2u);
  EXPECT_EQ(words[1].end_token, 3u);
  EXPECT_EQ(words[2].end_token, 6u) << "the timestamps before a word belong to it";
  EXPECT_EQ(words[3].end_token, 9u);
  EXPECT_TRUE(words[0].opens_segment);
  EXPECT_FALSE(words[1].opens_segment);
  EXPECT_TRUE(words[2].opens_segment);
  EXPECT_FALSE(words[4].opens_segment);
  EXPECT_DOUBLE_EQ(words[0].start_s, 11);
  EXPECT_DOUBLE_EQ(words[0].end_s, 11.8);  // 4 of 7 bytes of 1.4 s
  EXPECT_DOUBLE_EQ(words[1].end_s, 12.4);
  EXPECT_DOUBLE_EQ(words[2].start_s, 13);
  EXPECT_DOUBLE_EQ(words[4].end_s, 16) << "an open segment reaches to the sound's end";
}

TEST(CaptionWords, AreWholeCharactersWhereThereAreNoSpaces) {
  std::map<int32_t, std::string> spelling = {
      {1, "\xe7\xa0\xb8"}, {2, "\xe8\x87"}, {3, "\xaa"}, {4, "\xe5\xb7\xb1\xe7\x9a\x84"}};
  const std::vector<int32_t> guess = {at(0), 1, 2, 3, 4};
  EXPECT_THAT(texts(caption_words(guess, tokens_spelled(spelling, true), 0, 5)),
              ElementsAre("\xe7\xa0\xb8", "\xe8\x87\xaa", "\xe5\xb7\xb1\xe7\x9a\x84"));
}

TEST(CaptionWords, OfNothingAreNone) {
  std::map<int32_t, std::string> spelling;
  EXPECT_THAT(caption_words({}, tokens_spelled(spelling), 0, 1), IsEmpty());
  EXPECT_THAT(caption_words(std::vector<int32_t>{at(0), at(1)}, tokens_spelled(spelling), 0, 1),
              IsEmpty());
}

std::vector<CaptionWord> said(std::initializer_list<const char*> texts, double end_s = 10) {
  std::vector<CaptionWord> words;
  for (const char* text : texts) words.push_back({text, words.size() + 1, end_s - 1, end_s, false});
  return words;
}

TEST(LocalAgreement, IsTheLongestBeginningOfTwoGuessesThatFollowEachOther) {
  LocalAgreement agreement;
  EXPECT_EQ(agreement.agree(said({" And", " so", " my"}), 10, 5), 0u);
  EXPECT_EQ(agreement.agree(said({" And", " so", " nigh", " fellow"}), 10, 5), 2u);
  // What is final is not in the next guesses.
  EXPECT_EQ(agreement.agree(said({" my", " fellow"}), 10, 5), 0u) << "nigh was my";
  EXPECT_EQ(agreement.agree(said({" my", " fellow."}), 10, 5), 1u) << "a mark is a difference";
  EXPECT_EQ(agreement.agree(said({" fellow.", " Ask"}), 10, 5), 1u);
}

TEST(LocalAgreement, OfOtherWindowsIsNone) {
  LocalAgreement agreement;
  EXPECT_EQ(agreement.agree(said({" And"}), 10, 5), 0u);
  agreement.forget();
  EXPECT_EQ(agreement.agree(said({" And"}), 10, 5), 0u);
  EXPECT_EQ(agreement.agree(said({}), 10, 5), 0u);
  EXPECT_EQ(agreement.agree(said({" And"}), 10, 5), 0u) << "the guess before had nothing";
}

TEST(LocalAgreement, DoesNotWaitForeverForAWordThatGuessesDifferIn) {
  LocalAgreement agreement;
  std::vector<CaptionWord> words = said({" old", " new"});
  words[0].end_s = 4.9;
  EXPECT_EQ(agreement.agree(words, 9.8, 5), 0u);
  EXPECT_EQ(agreement.agree(words, 10, 5), 2u) << "both guesses are the same";
  LocalAgreement other;
  EXPECT_EQ(other.agree(words, 10, 5), 1u);
}

TEST(LocalAgreement, LeavesACharacterThatIsNotComplete) {
  LocalAgreement agreement;
  agreement.agree(said({" a", " caf\xc3"}), 10, 5);
  EXPECT_EQ(agreement.agree(said({" a", " caf\xc3"}), 10, 5), 1u);
}

}  // namespace
}  // namespace vesper::live_captions_test

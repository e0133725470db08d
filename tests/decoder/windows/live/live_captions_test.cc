#include "decoder/windows/live/live_captions.h"

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

TEST(CaptionWords, AreSplitAtSpacesWithProportionalTimes) {
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

TEST(CaptionWords, AreCharactersWithoutSpaces) {
  std::map<int32_t, std::string> spelling = {
      {1, "\xe7\xa0\xb8"}, {2, "\xe8\x87"}, {3, "\xaa"}, {4, "\xe5\xb7\xb1\xe7\x9a\x84"}};
  const std::vector<int32_t> guess = {at(0), 1, 2, 3, 4};
  EXPECT_THAT(texts(caption_words(guess, tokens_spelled(spelling, true), 0, 5)),
              ElementsAre("\xe7\xa0\xb8", "\xe8\x87\xaa", "\xe5\xb7\xb1\xe7\x9a\x84"));
}

TEST(CaptionWords, AreEmptyWithoutTokens) {
  std::map<int32_t, std::string> spelling;
  EXPECT_THAT(caption_words({}, tokens_spelled(spelling), 0, 1), IsEmpty());
  EXPECT_THAT(caption_words(std::vector<int32_t>{at(0), at(1)}, tokens_spelled(spelling), 0, 1),
              IsEmpty());
}

std::vector<CaptionWord> said(std::initializer_list<const char*> texts, double end_s = 10) {
  std::vector<CaptionWord> words;
  for (const char* text : texts) {
    CaptionWord& word = words.emplace_back();
    word.text = text;
    word.stem_bytes = word.text.find_last_not_of(".,") + 1;
    word.start_s = end_s - 1;
    word.end_s = end_s;
    word.end_token = word.stem_end_token = words.size();
  }
  return words;
}

TEST(CaptionWords, IncludeFollowingPunctuation) {
  std::map<int32_t, std::string> spelling = {{1, " ill"}, {2, "-"},   {3, "disposed"}, {4, "."},
                                             {5, "..\""}, {6, " He"}, {7, " -"},       {8, " Mr."}};
  const std::vector<int32_t> guess = {at(0), 1, 2, 3, 4, 5, 6, 7, 8};
  const auto words = caption_words(guess, tokens_spelled(spelling), 0, 5);
  ASSERT_THAT(texts(words), ElementsAre(" ill-disposed...\"", " He", " -", " Mr."));
  EXPECT_EQ(words[0].stem(), " ill-disposed");
  EXPECT_EQ(words[0].stem_end_token, 4u);
  EXPECT_EQ(words[1].stem(), " He");
  EXPECT_EQ(words[1].stem_end_token, words[1].end_token);
  EXPECT_EQ(words[2].stem(), "");
  EXPECT_EQ(words[3].stem(), " Mr.") << "one token";
}

TEST(CaptionWords, AreSplitAtGivenEnds) {
  std::map<int32_t, std::string> spelling = {{1, " so"}, {2, ","}, {3, " my"}};
  CaptionTokens tokens = tokens_spelled(spelling);
  tokens.n_given = 2;
  const std::vector<int32_t> guess = {at(0), 1, 2, 3};
  EXPECT_THAT(texts(caption_words(guess, tokens, 0, 5)), ElementsAre(" so", ",", " my"));
}

// The texts of the words that became final.
std::vector<std::string> agreed(LocalAgreement& agreement, const std::vector<CaptionWord>& words,
                                double end_s = 10, double patience_s = 5) {
  return texts(agreement.agree(words, end_s, patience_s));
}

TEST(LocalAgreement, IsTheLongestCommonPrefixOfTwoGuesses) {
  LocalAgreement agreement;
  EXPECT_THAT(agreed(agreement, said({" And", " so", " my"})), IsEmpty());
  EXPECT_THAT(agreed(agreement, said({" And", " so", " nigh", " fellow"})),
              ElementsAre(" And", " so"));
  // Final words are not in the next guesses.
  EXPECT_THAT(agreed(agreement, said({" my", " fellow"})), IsEmpty()) << "nigh was my";
  EXPECT_THAT(agreed(agreement, said({" my", " fellow.", " Ask"})), ElementsAre(" my", " fellow"));
  EXPECT_THAT(agreed(agreement, said({".", " Ask"})), ElementsAre(".", " Ask"));
}

TEST(LocalAgreement, ExcludesTrailingPunctuation) {
  LocalAgreement agreement;
  EXPECT_THAT(agreed(agreement, said({" young", " man."})), IsEmpty());
  EXPECT_THAT(agreed(agreement, said({" young", " man."})), ElementsAre(" young", " man"));
  EXPECT_THAT(agreed(agreement, said({"."})), IsEmpty()) << "the same again, but still the last";
  EXPECT_THAT(agreed(agreement, said({",", " unless"})), IsEmpty());
  EXPECT_THAT(agreed(agreement, said({",", " unless", " to"})), ElementsAre(",", " unless"));
}

TEST(LocalAgreement, IsLimitedToAudioOfBothGuesses) {
  LocalAgreement agreement;
  std::vector<CaptionWord> words = said({" ask", " not"}, 9);
  words[1].end_s = 9.5;  // after the end of the previous guess's audio
  EXPECT_THAT(agreed(agreement, words, 9.2), IsEmpty());
  EXPECT_THAT(agreed(agreement, words, 10.2), ElementsAre(" ask"));
  EXPECT_THAT(agreed(agreement, said({" not"}, 9.5), 11.2), ElementsAre(" not"));
}

TEST(LocalAgreement, WaitsForTheWordAfterADoubtfulOne) {
  LocalAgreement agreement;
  std::vector<CaptionWord> words = said({" appuyer", " sur"}, 9);
  words[0].probability = 0.3;
  EXPECT_THAT(agreed(agreement, words, 10), IsEmpty());
  EXPECT_THAT(agreed(agreement, words, 11), IsEmpty()) << "a second was heard behind it";
  EXPECT_THAT(agreed(agreement, words, 12), ElementsAre(" appuyer", " sur"));
  // One of the two guesses may be doubtful.
  std::vector<CaptionWord> sure = said({" appuyer"}, 19);
  agreed(agreement, words = said({" appuyer"}, 19), 20);
  words[0].probability = 0.3;
  EXPECT_THAT(agreed(agreement, words, 20.5), IsEmpty());
  EXPECT_THAT(agreed(agreement, sure, 20.9), IsEmpty());
  EXPECT_THAT(agreed(agreement, sure, 21), ElementsAre(" appuyer"));
}

TEST(LocalAgreement, IsEmptyForDifferentWindows) {
  LocalAgreement agreement;
  EXPECT_THAT(agreed(agreement, said({" And"})), IsEmpty());
  agreement.forget();
  EXPECT_THAT(agreed(agreement, said({" And"})), IsEmpty());
  EXPECT_THAT(agreed(agreement, said({})), IsEmpty());
  EXPECT_THAT(agreed(agreement, said({" And"})), IsEmpty()) << "the guess before had nothing";
}

TEST(LocalAgreement, DoesNotWaitForeverForADisputedWord) {
  LocalAgreement agreement;
  std::vector<CaptionWord> words = said({" old", " new"});
  words[0].end_s = 4.9;
  EXPECT_THAT(agreed(agreement, words, 9.8), IsEmpty());
  EXPECT_THAT(agreed(agreement, words, 10.1), ElementsAre(" old")) << "it was there before";
  LocalAgreement other;
  EXPECT_THAT(agreed(other, words, 10), ElementsAre(" old"));
}

TEST(LocalAgreement, ExcludesIncompleteCharacters) {
  LocalAgreement agreement;
  agreed(agreement, said({" a", " caf\xc3"}));
  EXPECT_THAT(agreed(agreement, said({" a", " caf\xc3"})), ElementsAre(" a"));
}

// Words of 1 s each.
std::vector<CaptionWord> spoken(std::initializer_list<const char*> texts, double start_s = 0) {
  std::vector<CaptionWord> words = said(texts);
  for (CaptionWord& word : words) {
    word.start_s = start_s;
    word.end_s = ++start_s;
  }
  return words;
}

TEST(ShownWords, AreAPrefixOfTheWholeText) {
  const auto whole = spoken({" And", " so,", " my", " fellow", " Americans"});
  const ShownPart part = find_shown(spoken({" and", " so", " nigh"}), whole);
  EXPECT_THAT(part.stands_for, ElementsAre(0, 1, 2)) << "misheard";
  EXPECT_EQ(part.stands_for.size(), 3u);
  EXPECT_EQ(part.n_whole, 3u);
  EXPECT_EQ(find_shown({}, whole).n_whole, 0u);
  const ShownPart all = find_shown(whole, {});
  EXPECT_EQ(all.stands_for.size(), 0u);
  EXPECT_EQ(all.n_whole, 0u);
}

TEST(ShownWords, MayDifferFromTheWholeText) {
  const auto whole = spoken({" And", " so", " my", " fellow", " Americans", " ask"});
  const ShownPart more = find_shown(spoken({" And", " so", " so", " my", " fellow"}), whole);
  EXPECT_THAT(more.stands_for, ElementsAre(0, 0, 1, 2, 3));
  EXPECT_EQ(more.n_whole, 4u);
  const ShownPart fewer = find_shown(spoken({" And", " my", " fellow", " Americans"}), whole);
  EXPECT_THAT(fewer.stands_for, ElementsAre(0, 2, 3, 4));
  EXPECT_EQ(fewer.n_whole, 5u);
}

TEST(ShownWords, MayBeLongerThanTheWholeText) {
  const ShownPart part =
      find_shown(spoken({" And", " so", " my", " fellow"}), spoken({" And", " so"}));
  EXPECT_EQ(part.stands_for.size(), 2u);
  EXPECT_EQ(part.n_whole, 2u);
}

TEST(ShownWords, EndAtTheirTimeIfAmbiguous) {
  const auto whole = spoken({" no", " no", " no", " no", " yes"});
  EXPECT_EQ(find_shown(spoken({" no", " no"}), whole).n_whole, 2u);
  EXPECT_EQ(find_shown(spoken({" x", " x"}), whole).n_whole, 2u);
  EXPECT_EQ(find_shown(spoken({" x", " x"}, -1), whole).n_whole, 1u) << "only the last is one";
}

TEST(TokensOfNextWindow, CountTimestampsFromTheNextWindow) {
  const auto carried = [](std::vector<int32_t> tokens) {
    return tokens_of_next_window(tokens, 100, kTimestamps);
  };
  EXPECT_THAT(carried({1, at(3), at(3), 2}), ElementsAre(at(0), 1, at(2), at(2), 2));
  EXPECT_THAT(carried({at(3), at(4), 2}), ElementsAre(at(3), 2)) << "one timestamp at the start";
  EXPECT_THAT(carried({at(0.5), 1}), ElementsAre(at(0), 1)) << "not before the window";
  EXPECT_THAT(carried({}), IsEmpty());
}

}  // namespace
}  // namespace vesper::live_captions_test

// BERT's normalizer and WordPiece, on a vocabulary of a few tokens.
#include "llm/tokenizer/models/word_piece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error/error.h"
#include "llm/tokenizer/steps/normalizations.h"
#include "llm/tokenizer/steps/text_splitters.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper::word_piece_test {
namespace {

using namespace std::literals;
using testing::ElementsAre;

std::vector<std::string> words_of(std::string_view text, const BertNormalization& how = {}) {
  std::vector<TextPiece> words;
  std::vector<TextPiece> parts;
  split_at_white_space()({normalize_as_bert(how)(valid_utf8(text)), true}, words);
  for (const TextPiece& word : words) {
    split_at_punctuation(SplitBehavior::kIsolated)(word, parts);
  }
  std::vector<std::string> texts;
  for (const TextPiece& part : parts) texts.push_back(part.text);
  return texts;
}

TEST(BertWords, AreCutAtWhiteSpaceAndAroundEachPunctuationMark) {
  EXPECT_THAT(words_of(" one\ttwo\u3000three\nfour "), ElementsAre("one", "two", "three", "four"));
  EXPECT_THAT(words_of("don't $5.99—ok?!"),
              ElementsAre("don", "'", "t", "$", "5", ".", "99", "—", "ok", "?", "!"));
  EXPECT_THAT(words_of(""), ElementsAre());
}

TEST(BertWords, LoseAccentsAndCaseByDefault) {
  EXPECT_THAT(words_of("Café NAÏVE Ångström İstanbul"),
              ElementsAre("cafe", "naive", "angstrom", "istanbul"));
  // Hangul decomposes as well.
  EXPECT_THAT(words_of("\uac01"), ElementsAre("\u1100\u1161\u11a8"));
}

TEST(BertWords, KeepAccentsAndCaseIfTheModelDoes) {
  BertNormalization cased;
  cased.lower_case = cased.strip_accents = false;
  EXPECT_THAT(words_of("Café", cased), ElementsAre("Café"));
  BertNormalization accents;
  accents.strip_accents = false;
  EXPECT_THAT(words_of("Café İ", accents), ElementsAre("café", "i\u0307"));
}

TEST(BertWords, AreSingleChineseCharacters) {
  EXPECT_THAT(words_of("a東京b"), ElementsAre("a", "東", "京", "b"));
  BertNormalization together;
  together.space_chinese_characters = false;
  EXPECT_THAT(words_of("a東京b", together), ElementsAre("a東京b"));
}

TEST(BertWords, LoseControlCharactersAndInvalidUtf8) {
  EXPECT_THAT(words_of("a\0b\x07"
                       "c\u200dd\ufeff\xff"
                       "e\x0b"
                       "f"sv),
              ElementsAre("abcdef"));
}

std::shared_ptr<const Vocabulary> vocabulary(std::vector<std::string> spellings) {
  return std::make_shared<const Vocabulary>(std::move(spellings), Vocabulary::Duplicates::kFirst);
}

const WordPiece& small() {
  static const WordPiece words(
      vocabulary({"[UNK]", "un", "##aff", "##able", "##a", "able", "東", "a", "##東"}), {});
  return words;
}

std::vector<int32_t> ids_of(std::string_view text) {
  std::vector<int32_t> ids;
  for (const std::string& word : words_of(text)) small().encode(word, ids);
  return ids;
}

TEST(WordPiece, TakesTheLongestTokenEachTime) {
  EXPECT_THAT(ids_of("Unaffable able"), ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(ids_of("a東 東"), ElementsAre(7, 6, 6));
}

TEST(WordPiece, HasOneUnknownTokenPerWord) {
  EXPECT_THAT(ids_of("unaffx a"), ElementsAre(0, 7));
  EXPECT_THAT(ids_of("!a"), ElementsAre(0, 7));
}

TEST(WordPiece, TakesWordsOfUpToAHundredCharacters) {
  EXPECT_EQ(ids_of(std::string(100, 'a')).size(), 100u);
  EXPECT_THAT(ids_of(std::string(101, 'a')), ElementsAre(0));
}

TEST(WordPiece, NeedsATokenForUnknownWords) {
  EXPECT_THROW(WordPiece(vocabulary({"a", "b"}), {}), Error);
}

}  // namespace
}  // namespace vesper::word_piece_test

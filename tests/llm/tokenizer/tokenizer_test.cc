// The tokenizer, on the synthetic vocabulary of the tiny model, and Whisper's tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "error/error.h"
#include "llm/tokenizer/steps/byte_level.h"
#include "llm/tokenizer/steps/text_splitters.h"
#include "llm/tokenizer/text_tokenizer.h"
#include "llm/tokenizer/unicode/utf8_stream.h"
#include "llm/tokenizer/whisper_tokens.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::tokenizer_test {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Not;

// 256 bytes, then "th", "he", "the", " t", "in", " the", "thin".
const TextTokenizer& small_tokenizer() {
  static const auto tokenizer = [] {
    std::vector<std::string> vocabulary;
    for (int byte = 0; byte < 256; ++byte) vocabulary.emplace_back(1, static_cast<char>(byte));
    for (const char* word : {"th", "he", "the", " t", "in", " the", "thin", "<|end|>"}) {
      vocabulary.emplace_back(word);
    }
    return whisper_tokenizer(std::move(vocabulary), 263);
  }();
  return *tokenizer;
}

std::vector<int32_t> ids_of(const TextTokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, true, true);
}

constexpr int32_t kTh = 256, kThe = 258, kSpaceT = 259, kIn = 260, kSpaceThe = 261, kThin = 262;

std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<TextPiece> pieces;
  split_by_pattern(kGpt2Pattern, SplitBehavior::kIsolated, false)({std::string(text), true},
                                                                  pieces);
  std::vector<std::string> texts;
  for (const TextPiece& piece : pieces) texts.push_back(piece.text);
  return texts;
}

TEST(ByteLevel, SpellsEveryByteInOneCharacterAndBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(bytes_of_byte_level(byte_level_of_bytes(all)), all);
}

TEST(ByteLevel, SpellsSpaceAndSoftHyphenAsGpt2Does) {
  EXPECT_EQ(byte_level_of_bytes(" "), "\u0120");
  EXPECT_EQ(byte_level_of_bytes("\xad"), "\u0143");
  EXPECT_EQ(byte_level_of_bytes("\xa0"), "\u0142");
  EXPECT_EQ(byte_level_of_bytes("~\xff"), "~\u00ff");
}

TEST(ByteLevel, LeavesOtherCharactersAsTheyAre) {
  EXPECT_EQ(bytes_of_byte_level("<|日本|>"), "<|日本|>");
  EXPECT_EQ(bytes_of_byte_level("\xc4"), "\xc4");  // half a character
}

TEST(Gpt2Pieces, KeepASpaceWithTheWordAfterIt) {
  EXPECT_THAT(pieces_of("I've 20 cats,  don't  "),
              ElementsAre("I", "'ve", " 20", " cats", ",", " ", " don", "'t", "  "));
}

TEST(Gpt2Pieces, KnowLettersAndDigitsOfAllScripts) {
  EXPECT_THAT(pieces_of("naïve Привет٣４ 日本語"),
              ElementsAre("naïve", " Привет", "٣４", " 日本語"));
}

TEST(Gpt2Pieces, KeepInvalidBytesInTheirOwnPiece) {
  EXPECT_THAT(pieces_of("ab\xff\xfe cd\xc3"), ElementsAre("ab", "\xff\xfe", " cd", "\xc3"));
}

TEST(Gpt2Pieces, NeedAPattern) {
  EXPECT_THROW(split_by_pattern("(a", SplitBehavior::kIsolated, false), Error);
}

TEST(WhisperTokenizer, MergesTheLowestRankFirst) {
  // "thin": th (256) merges before in (260), then both merge.
  EXPECT_THAT(ids_of(small_tokenizer(), "thin"), ElementsAre(kThin));
  // "the": t and h merge before h and e.
  EXPECT_THAT(ids_of(small_tokenizer(), "thee"), ElementsAre(kThe, 'e'));
  // " the": th (256) merges first, then the, then " the"; " t" (259) never merges.
  EXPECT_THAT(ids_of(small_tokenizer(), " theo"), ElementsAre(kSpaceThe, 'o'));
  EXPECT_THAT(ids_of(small_tokenizer(), " tin"), ElementsAre(kSpaceT, kIn));
  EXPECT_THAT(ids_of(small_tokenizer(), "athth"), ElementsAre('a', kTh, kTh));
}

TEST(WhisperTokenizer, MergesEqualRanksFromTheLeft) {
  std::vector<std::string> vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.emplace_back(1, static_cast<char>(byte));
  vocabulary.emplace_back("aa");
  EXPECT_THAT(ids_of(*whisper_tokenizer(vocabulary, 257), "aaaaa"), ElementsAre(256, 256, 'a'));
}

TEST(WhisperTokenizer, NeverEncodesSpecialTokensButDecodesThem) {
  const auto ids = ids_of(small_tokenizer(), "<|end|>");
  EXPECT_EQ(ids.size(), 7u);
  EXPECT_THAT(ids, Not(Contains(263)));
  EXPECT_EQ(small_tokenizer().bytes_of(263), "<|end|>");
}

TEST(WhisperTokenizer, DecodesUnknownIdsToNothing) {
  const int32_t ids[] = {-1, 'a', 264, INT32_MAX};
  EXPECT_EQ(small_tokenizer().decode(ids), "a");
}

TEST(WhisperTokenizer, DecodesWhatItEncodes) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string text;
    for (size_t i = random() % 40; i > 0; --i) {
      const char* const characters[] = {"t", "h", "e", " ", "i", "n", "é", "日", "🎵", "\n"};
      text += characters[random() % 10];
    }
    ASSERT_EQ(small_tokenizer().decode(ids_of(small_tokenizer(), text)), text) << trial;
  }
}

TEST(WhisperTokenizer, ReplacesInvalidBytes) {
  EXPECT_EQ(ids_of(small_tokenizer(), "the\xff"), ids_of(small_tokenizer(), "the\ufffd"));
}

// The definition: merges the pair with the lowest rank, leftmost first, until none is left.
std::vector<int32_t> merged_plainly(const TextTokenizer& tokenizer, std::string_view piece) {
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  while (true) {
    int32_t lowest = INT32_MAX;
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const int32_t rank = tokenizer.find(parts[i] + parts[i + 1]);
      if (rank >= 0 && rank < lowest) {
        lowest = rank;
        at = i;
      }
    }
    if (lowest == INT32_MAX) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& part : parts) ids.push_back(tokenizer.find(part));
  return ids;
}

const test::TinyWhisper& tiny_model() {
  static const test::TinyWhisper model({.n_audio_ctx = 2, .n_text_ctx = 2, .d_model = 2});
  return model;
}

const TextTokenizer& tiny_tokenizer() {
  static const auto tokenizer =
      whisper_tokenizer(tiny_model().vocabulary(), tiny_model().n_text_tokens());
  return *tokenizer;
}

TEST(WhisperTokenizer, MergesAsAPlainLoop) {
  std::mt19937 random(8);
  for (int trial = 0; trial < 500; ++trial) {
    std::string word(1 + random() % 30, '\0');
    for (char& c : word) c = static_cast<char>('a' + random() % 26);
    ASSERT_EQ(ids_of(tiny_tokenizer(), word), merged_plainly(tiny_tokenizer(), word)) << word;
  }
}

TEST(WhisperTokenizer, EncodesAMegabyteWithoutSpacesQuickly) {
  // Quadratic merging of a million bytes would take minutes.
  const auto start = std::chrono::steady_clock::now();
  for (const char c : {'a', ' ', '!', '\n'}) {
    const std::string text(1'000'000, c);
    EXPECT_EQ(tiny_tokenizer().decode(ids_of(tiny_tokenizer(), text)), text);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(WhisperTokenizer, NeedsATokenForEveryByte) {
  EXPECT_THROW(whisper_tokenizer({"a", "b"}, 2), Error);
  EXPECT_THROW(whisper_tokenizer({}, 0), Error);
}

TEST(Utf8Stream, HoldsBackHalfACharacter) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xe6\x97"), "a");
  EXPECT_EQ(stream.push("\xa5"), "日");
  EXPECT_EQ(stream.push("\xf0\x9f\x8e"), "");
  EXPECT_EQ(stream.push("\xb5!"), "🎵!");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, ReplacesAnUnfinishedCharacterAtTheEnd) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xe6\x97"), "");
  EXPECT_EQ(stream.finish(), "\ufffd");
  EXPECT_EQ(stream.push("b"), "b");
}

TEST(Utf8Stream, ReplacesInvalidBytesAsTheUnicodeStandardRecommends) {
  // The Unicode standard, chapter 3, tables 3-8 to 3-11.
  EXPECT_EQ(valid_utf8("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"),
            "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"
            "A");
  EXPECT_EQ(valid_utf8("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"),
            "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"
            "A");
  EXPECT_EQ(valid_utf8("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"),
            "\ufffd\ufffd\ufffd\ufffd\ufffd"
            "A\ufffd\ufffd"
            "B");
  EXPECT_EQ(valid_utf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"),
            "\ufffd\ufffd\ufffd\ufffd"
            "A");
}

TEST(Utf8Stream, DoesNotDependOnHowBytesArrive) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) {
      const char* const texts[] = {"a", "é", "日", "🎵", "\xff", "\xe6\x97", "\xf0\x9f", "\x80"};
      bytes += texts[random() % 8];
    }
    const std::string whole = valid_utf8(bytes);
    ASSERT_EQ(valid_utf8_prefix(whole), whole.size());
    Utf8Stream stream;
    std::string text;
    for (size_t i = 0; i < bytes.size();) {
      const size_t n = 1 + random() % 3;
      const std::string part = stream.push(bytes.substr(i, n));
      ASSERT_EQ(valid_utf8_prefix(part), part.size());
      text += part;
      i += n;
    }
    ASSERT_EQ(text + stream.finish(), whole);
  }
}

// Ids from openai-whisper 20250625 (whisper/tokenizer.py, both vocabularies). large-v3 has one more
// language.
TEST(WhisperTokens, OfAnEnglishModelEqualTheReference) {
  const auto tokens = WhisperTokens::of_vocabulary_size(51864);
  EXPECT_FALSE(tokens.is_multilingual);
  EXPECT_EQ(tokens.eot, 50256);
  EXPECT_EQ(tokens.sot, 50257);
  EXPECT_EQ(tokens.translate, 50357);
  EXPECT_EQ(tokens.transcribe, 50358);
  EXPECT_EQ(tokens.solm, 50359);
  EXPECT_EQ(tokens.prev, 50360);
  EXPECT_EQ(tokens.nospeech, 50361);
  EXPECT_EQ(tokens.notimestamps, 50362);
  EXPECT_EQ(tokens.timestamp_begin, 50363);
}

TEST(WhisperTokens, OfAMultilingualModelEqualTheReference) {
  const auto tokens = WhisperTokens::of_vocabulary_size(51865);
  EXPECT_TRUE(tokens.is_multilingual);
  EXPECT_EQ(tokens.eot, 50257);
  EXPECT_EQ(tokens.sot, 50258);
  EXPECT_EQ(tokens.n_languages, 99u);
  EXPECT_EQ(tokens.transcribe, 50359);
  EXPECT_EQ(tokens.nospeech, 50362);
  EXPECT_EQ(tokens.timestamp_begin, 50364);
  EXPECT_EQ(tokens.language_token("french"), 50265);
  EXPECT_EQ(tokens.language_token("yue"), std::nullopt);
}

TEST(WhisperTokens, OfLargeV3KnowCantonese) {
  const auto tokens = WhisperTokens::of_vocabulary_size(51866);
  EXPECT_EQ(tokens.n_languages, 100u);
  EXPECT_EQ(tokens.timestamp_begin, 50365);
  EXPECT_EQ(tokens.language_token("Cantonese"), 50358);
  EXPECT_STREQ(tokens.language_of(50358)->code, "yue");
  EXPECT_EQ(tokens.language_of(50359), nullptr);
  EXPECT_EQ(tokens.language_of(50258), nullptr);
}

TEST(WhisperTokens, EndWithThirtySecondsInEveryVocabulary) {
  for (const uint32_t n_vocab : {51864u, 51865u, 51866u}) {
    const auto tokens = WhisperTokens::of_vocabulary_size(n_vocab);
    EXPECT_EQ(static_cast<uint32_t>(tokens.timestamp_begin) + tokens.n_timestamps, n_vocab);
    EXPECT_DOUBLE_EQ(tokens.seconds_of(static_cast<int32_t>(n_vocab) - 1), 30.0);
    EXPECT_TRUE(tokens.is_timestamp(tokens.timestamp_begin));
    EXPECT_FALSE(tokens.is_timestamp(tokens.notimestamps));
  }
  EXPECT_THROW(WhisperTokens::of_vocabulary_size(51863), Error);
  EXPECT_THROW(WhisperTokens::of_vocabulary_size(51867), Error);
}

TEST(WhisperLanguages, AreFoundByCodeNameAndOtherNames) {
  EXPECT_EQ(find_whisper_language("en"), 0u);
  EXPECT_EQ(find_whisper_language("English"), 0u);
  EXPECT_EQ(find_whisper_language("castilian"), find_whisper_language("es"));
  EXPECT_EQ(find_whisper_language("Mandarin"), find_whisper_language("zh"));
  EXPECT_EQ(find_whisper_language("haitian creole"), find_whisper_language("ht"));
  EXPECT_EQ(find_whisper_language("klingon"), std::nullopt);
  EXPECT_EQ(find_whisper_language(""), std::nullopt);
}

TEST(WhisperLanguages, AreAHundredWithDistinctCodes) {
  ASSERT_EQ(whisper_languages().size(), 100u);
  for (uint32_t at = 0; at < 100; ++at) {
    EXPECT_EQ(find_whisper_language(whisper_languages()[at].code), at);
    EXPECT_EQ(find_whisper_language(whisper_languages()[at].name), at);
  }
}

TEST(NonSpeechTokens, AreSymbolsAndMusicNotes) {
  const auto& tokenizer = tiny_tokenizer();
  const auto suppressed = non_speech_tokens(tokenizer);
  EXPECT_TRUE(std::is_sorted(suppressed.begin(), suppressed.end()));
  for (const char* sign : {"#", "(", "[", "~", "@", "\\"}) {
    EXPECT_THAT(suppressed, Contains(tokenizer.find(sign))) << sign;
  }
  // This vocabulary has no token for a note, so its first byte is suppressed.
  EXPECT_THAT(suppressed, Contains(tokenizer.find("\xe2")));
  for (const char* text : {"-", "'", "a", ".", ",", "?", "$"}) {
    EXPECT_THAT(suppressed, Not(Contains(tokenizer.find(text)))) << text;
  }
}

TEST(Vocabulary, OmitsExcludedTokens) {
  const Vocabulary vocabulary({"long", "a", "a"}, Vocabulary::Duplicates::kFirst,
                              [](int32_t id) { return id == 2; });
  EXPECT_EQ(vocabulary.find("a"), 2);
  EXPECT_EQ(vocabulary.find("long"), -1);
  EXPECT_EQ(vocabulary.longest(), 1u);
  EXPECT_EQ(vocabulary.spelling(0), "long");
  EXPECT_EQ(vocabulary.spelling(3), "");
}

TEST(Vocabulary, FindsTheRightOneOfDuplicates) {
  std::vector<std::string> spellings = {"a", "", "b", "a"};
  for (int i = 0; i < 1000; ++i) spellings.push_back("token " + std::to_string(i));
  const Vocabulary first(spellings, Vocabulary::Duplicates::kFirst);
  const Vocabulary last(spellings, Vocabulary::Duplicates::kLast);
  EXPECT_EQ(first.find("a"), 0);
  EXPECT_EQ(last.find("a"), 3);
  for (const Vocabulary* index : {&first, &last}) {
    EXPECT_EQ(index->find("b"), 2);
    EXPECT_EQ(index->find(""), -1);
    EXPECT_EQ(index->find("token 1000"), -1);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(index->find("token " + std::to_string(i)), i + 4);
  }
  std::vector<std::string_view> several = {"a", "none", ""};
  for (int i = 999; i >= 0; --i) several.push_back(spellings[static_cast<size_t>(i) + 4]);
  std::vector<int32_t> ids(several.size());
  last.find(several, ids.data());
  for (size_t i = 0; i < several.size(); ++i)
    EXPECT_EQ(ids[i], last.find(several[i])) << several[i];
  Vocabulary().find(several, ids.data());
  EXPECT_THAT(ids, Each(-1));
  EXPECT_EQ(Vocabulary().find("a"), -1);
  EXPECT_EQ(Vocabulary({}, Vocabulary::Duplicates::kFirst).find("a"), -1);
}

}  // namespace
}  // namespace vesper::tokenizer_test

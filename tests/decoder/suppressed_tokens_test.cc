#include "decoder/suppressed_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error/error.h"
#include "llm/tokenizer/whisper_tokens.h"

namespace vesper::suppressed_tokens_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The 256 bytes, then these.
constexpr int32_t kWords = 256;

class SuppressedTokens : public testing::Test {
 protected:
  static std::vector<std::string> vocabulary() {
    std::vector<std::string> words;
    for (int byte = 0; byte < kWords; ++byte) words.emplace_back(1, static_cast<char>(byte));
    for (const char* word : {" um", "um", " drum", " 4th", "£", " $", "100%", "\xe2\x82", "é"}) {
      words.emplace_back(word);
    }
    words.emplace_back("<|um|>");  // stands for no text
    return words;
  }
  // Of the words, those that the settings keep out, from 0.
  std::vector<int32_t> words_of(const DecodingSettings& settings) const {
    std::vector<int32_t> words;
    for (const int32_t id : suppressed_tokens(settings, *tokenizer_, kWords + 9, {})) {
      if (id >= kWords) words.push_back(id - kWords);
    }
    return words;
  }

  std::unique_ptr<const TextTokenizer> tokenizer_ = whisper_tokenizer(vocabulary(), kWords + 9);
};

TEST_F(SuppressedTokens, AreTheListedAndTheModels) {
  DecodingSettings settings;
  settings.suppress_tokens = {7, 3};
  const std::vector<int32_t> of_model{5, 6};
  EXPECT_THAT(suppressed_tokens(settings, *tokenizer_, 265, of_model), ElementsAre(7, 3, 5, 6));
  settings.suppress_model_tokens = false;
  EXPECT_THAT(suppressed_tokens(settings, *tokenizer_, 265, of_model), ElementsAre(7, 3));
}

TEST_F(SuppressedTokens, MatchThePatternAsAWhole) {
  DecodingSettings settings;
  settings.suppress_regex = " ?um";
  EXPECT_THAT(words_of(settings), ElementsAre(0, 1));
  settings.suppress_regex = ".*um";
  EXPECT_THAT(words_of(settings), ElementsAre(0, 1, 2));
  settings.suppress_regex = "(?i) UM|\\p{L}|[£]";
  EXPECT_THAT(words_of(settings), ElementsAre(0, 4, 8));
}

TEST_F(SuppressedTokens, RefuseAnInvalidPattern) {
  DecodingSettings settings;
  settings.suppress_regex = "a(b";
  try {
    words_of(settings);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("suppress regex: expected a pattern of PCRE2"));
    EXPECT_THAT(error.what(), HasSubstr("at byte 3"));
  }
}

TEST_F(SuppressedTokens, IncludeDigitsAndSymbolsForNumerals) {
  DecodingSettings settings;
  settings.suppress_numerals = true;
  EXPECT_THAT(words_of(settings), ElementsAre(3, 4, 5, 6));
}

}  // namespace
}  // namespace vesper::suppressed_tokens_test

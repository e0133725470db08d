#include "llm/grammar/regex/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "error/error.h"
#include "tests/llm/grammar/grammar_texts.h"

namespace vesper {
namespace {

std::string regex_error(std::string_view pattern) {
  try {
    const CompiledGrammar grammar(grammar_of_regex(pattern));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return {};
}

struct RegexCase {
  const char* pattern;
  std::vector<const char*> accepted, refused;
};

TEST(Regex, MatchesWholeTexts) {
  const std::vector<RegexCase> cases = {
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"^abc$", {"abc"}, {"ab"}},
      {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
      {"[a-c]+[^a-c]", {"aX", "abcé"}, {"abc", "X", "aXX"}},
      {"a*?b{2,3}?", {"bb", "aabbb"}, {"b", "bbbb"}},
      {"(ab){2,}", {"abab", "ababab"}, {"ab", "aba"}},
      {"(?:x|(?<name>y))z", {"xz", "yz"}, {"z", "xyz"}},
      {R"(\d\D\w\W\s\S)", {"1a_- x"}, {"aa_- x", "1a_-xx"}},
      {R"(\.\*\/\-[\]\\])", {R"(.*/-])", R"(.*/-\)"}, {R"(x*/-])"}},
      {R"(\x41\u0042\u{43}\uD83D\uDE00)", {"ABC\xF0\x9F\x98\x80"}, {"ABC"}},
      {R"(\t\n\r\f\v\0\cA)", {std::string_view("\t\n\r\f\v\0\x01", 7).data()}, {"\t"}},
      {R"(\p{L}\p{Lu}\P{N})", {"éÉx"}, {"1Éx", "ééx", "éÉ1"}},
      {R"(\p{Letter}\p{General_Category=Nd})", {"a7"}, {"77"}},
      {".", {"a", "é", "\xF0\x9F\x98\x80"}, {"\n", "", "ab"}},
      {"{|a{|a{,2}", {"{", "a{", "a{,2}"}, {"aa"}},
      {"^a|b$", {"a", "b"}, {"ab"}},
      {"(^a)b|c$^", {"ab"}, {"c", "b"}},
  };
  for (const RegexCase& one : cases) {
    SCOPED_TRACE(one.pattern);
    GrammarTexts texts(grammar_of_regex(one.pattern));
    for (const char* text : one.accepted) {
      // The case with \0 is the only text that has a zero byte.
      const std::string_view whole = std::string_view(one.pattern).starts_with(R"(\t\n)")
                                         ? std::string_view(text, 7)
                                         : std::string_view(text);
      EXPECT_TRUE(texts.accepts(whole)) << text;
    }
    for (const char* text : one.refused) EXPECT_FALSE(texts.accepts(text)) << text;
  }
}

TEST(Regex, LargeCountsAreCounted) {
  GrammarTexts texts(grammar_of_regex("[a-z]{1,1000000}!"));
  EXPECT_TRUE(texts.accepts(std::string(3000, 'x') + "!"));
  EXPECT_FALSE(texts.accepts("!"));
}

TEST(Regex, ErrorsNameTheOffset) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"a(b", "at byte 1: expected a ) for this (, found the end"},
      {"a)b", "at byte 1: found ) without ("},
      {"[a", "at byte 0: found [ without ]"},
      {"*a", "at byte 0: found * with nothing to repeat"},
      {"a**", "at byte 2: found * with nothing to repeat"},
      {"a{3,2}", "at byte 1: expected {m,n} with m up to n"},
      {"a{1,1000000000}", "at byte 1: expected at most 1,000,000 repetitions"},
      {"(a)\\1", "at byte 3: back references are not supported"},
      {"a(?=b)", "at byte 1: look-around is not supported"},
      {"a\\bb", "at byte 1: word boundaries are not supported"},
      {"[z-a]", "at byte 1: expected a range of two characters, the lower one first"},
      {"\\p{Klingon}", "at byte 0: expected the name of a general category, such as L or Lu"},
      {"\\", "at byte 0: found \\ at the end"},
      {"a\xff", "at byte 1: expected UTF-8"},
      {"\\u{110000}", "at byte 0: expected a code point up to 10FFFF"},
      {"a^b", "no text matches the pattern"},
  };
  for (const auto& [pattern, message] : cases)
    EXPECT_EQ(regex_error(pattern), std::string("regex: ") + message) << pattern;
  EXPECT_THAT(regex_error(std::string(200, '(') + "a" + std::string(200, ')')),
              testing::HasSubstr("at most 100 nested groups"));
}

// Automata that would take too long or too much memory.
TEST(Regex, HugeAutomataAreErrors) {
  for (const char* pattern : {"(x|^a)((((b{1000}){1000}){1000}){1000})", "(^|x)(a|b)*a(a|b){30}",
                              "^a^(((.{0,999}){0,999}){0,999})", "(a$|b\\p{Lu}{2,5600})$"}) {
    EXPECT_THAT(regex_error(pattern), testing::HasSubstr("states")) << pattern;
  }
}

class RandomPatterns {
 public:
  std::string pattern(int depth) {
    switch (depth == 0 ? random_() % 4 : random_() % 9) {
      case 0:
      case 1:
        return "a";
      case 2:
        return "b";
      case 3:
        return random_() % 2 ? "[ab]" : "[^a]";
      case 4:
      case 5:
        return pattern(depth - 1) + pattern(depth - 1);
      case 6:
        return "(?:" + pattern(depth - 1) + "|" + pattern(depth - 1) + ")";
      case 7: {
        constexpr const char* kCounts[] = {"*", "+", "?", "{2}", "{1,2}", "{2,}"};
        return "(?:" + pattern(depth - 1) + ")" + kCounts[random_() % 6];
      }
      default:
        return (random_() % 2 ? "^" : "") + pattern(depth - 1) + (random_() % 2 ? "$" : "");
    }
  }
  std::string text() {
    std::string text;
    for (size_t n = random_() % 7; n > 0; --n) text += "abc"[random_() % 3];
    return text;
  }

 private:
  std::mt19937 random_{42};
};

// Against the C++ library's regular expressions of ECMAScript.
TEST(Regex, AgreesWithStdRegex) {
  RandomPatterns random;
  int n_matches = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string pattern = random.pattern(4);
    const std::regex reference(pattern, std::regex::ECMAScript);
    const RegexNode regex = parse_regex(pattern);
    const TextDfa whole = texts_that_match(regex), search = texts_with_match(regex);
    const TextDfa not_whole = complement_of(whole);
    const TextDfa both = intersection_of(search, not_whole);
    for (int j = 0; j < 30; ++j) {
      const std::string text = random.text();
      const bool matches = std::regex_match(text, reference);
      const bool occurs = std::regex_search(text, reference);
      n_matches += matches;
      ASSERT_EQ(whole.accepts(text), matches) << pattern << " on " << text;
      ASSERT_EQ(search.accepts(text), occurs) << pattern << " on " << text;
      ASSERT_EQ(not_whole.accepts(text), !matches) << pattern << " on " << text;
      ASSERT_EQ(both.accepts(text), occurs && !matches) << pattern << " on " << text;
      ASSERT_EQ(union_of(whole, search).accepts(text), occurs || matches) << pattern;
      ASSERT_EQ(with_length(whole, {2, 4}).accepts(text),
                matches && text.size() >= 2 && text.size() <= 4)
          << pattern << " on " << text;
    }
    if (whole.is_empty()) continue;
    GrammarTexts texts(grammar_of_regex(pattern));
    for (int j = 0; j < 10; ++j) {
      const std::string text = random.text();
      ASSERT_EQ(texts.accepts(text), std::regex_match(text, reference))
          << pattern << " on " << text;
    }
  }
  EXPECT_GT(n_matches, 500);
}

TEST(Regex, LengthsOfAutomata) {
  const auto lengths = [](const char* pattern) {
    const LengthRange range = lengths_of(texts_that_match(parse_regex(pattern)));
    return std::pair(range.min, range.max);
  };
  EXPECT_EQ(lengths("ab|cde"), std::pair(2u, 3u));
  EXPECT_EQ(lengths("a*"), std::pair(0u, kNoLimit));
  EXPECT_EQ(lengths("a{3,7}é"), std::pair(4u, 8u));
}

}  // namespace
}  // namespace vesper

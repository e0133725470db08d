// Compiler, masks and matcher against Earley's algorithm, over random grammars and vocabularies.
#include "llm/grammar/matching/grammar_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "error/error.h"
#include "llm/grammar/gbnf.h"
#include "llm/tokenizer/files/open_text_tokenizer.h"
#include "tests/damage_rounds.h"
#include "tests/llm/grammar/random_grammar.h"

namespace vesper::grammar_matcher_test {
namespace {

constexpr int32_t kStop = 3;

std::shared_ptr<const TokenVocabulary> vocabulary_of(const std::vector<std::string>& texts,
                                                     std::vector<int32_t> stop_ids,
                                                     bool drops_first_space = false) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return std::make_shared<const TokenVocabulary>(views, stop_ids, drops_first_space);
}

// The bytes of the alphabet and pieces of random texts, which begin and end inside of characters.
std::shared_ptr<const TokenVocabulary> random_vocabulary(std::mt19937& random) {
  std::vector<std::string> texts = {"", "a", "", "</s>"};  // 0 and 2 have no text
  for (const std::string& character : grammar_alphabet()) {
    for (const char byte : character) texts.emplace_back(1, byte);
  }
  for (int i = 0; i < 60; ++i) {
    std::string text;
    while (text.size() < 8) text += grammar_alphabet()[random() % grammar_alphabet().size()];
    texts.push_back(text.substr(random() % 4, 1 + random() % 5));
  }
  texts.emplace_back("\xff");
  return vocabulary_of(texts, {kStop}, random() % 3 == 0);
}

// What a token adds to a text.
std::string_view text_of(const TokenVocabulary& vocabulary, int32_t id, bool is_first) {
  std::string_view bytes = vocabulary.bytes_of(id);
  if (is_first && vocabulary.drops_first_space() && bytes.starts_with(' ')) bytes.remove_prefix(1);
  return bytes;
}

bool has(const std::vector<uint32_t>& mask, int32_t id) {
  return mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1;
}

// The tokens that may follow, found one by one.
std::vector<bool> allowed_tokens(EarleyRecognizer& reference, const TokenVocabulary& vocabulary,
                                 bool is_first) {
  std::vector<bool> allowed(vocabulary.n_tokens());
  for (size_t i = 0; i < allowed.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const std::string_view bytes = text_of(vocabulary, id, is_first);
    allowed[i] = vocabulary.is_stop(id)
                     ? reference.may_end()
                     : !vocabulary.bytes_of(id).empty() && reference.advance(bytes);
    if (allowed[i]) reference.undo(bytes.size());
  }
  return allowed;
}

// The bytes that must follow.
std::string forced_text(EarleyRecognizer& reference, size_t limit) {
  std::string forced;
  while (forced.size() < limit && !reference.may_end()) {
    std::string next;
    for (int byte = 0; byte < 256 && next.size() < 2; ++byte) {
      if (reference.advance(static_cast<uint8_t>(byte))) next += static_cast<char>(byte);
      reference.undo(1);
    }
    if (next.size() != 1) break;
    forced += next;
    reference.advance(next);
  }
  reference.undo(forced.size());
  return forced;
}

TEST(GrammarMatcher, AllowsTheTokensThatEarleysAlgorithmAllows) {
  std::mt19937 random(20);
  int n_texts = 0, n_steps = 0, n_refused = 0;
  for (size_t round = 0; round < damage_rounds(1500); ++round) {
    const RandomGrammar grammar = random_grammar(random);
    const std::string text = gbnf_of(grammar, random);
    SCOPED_TRACE(text);
    EarleyRecognizer reference(grammar);
    if (is_left_recursive(grammar) || !reference.admits_some_text()) {
      EXPECT_THROW(CompiledGrammar(parse_gbnf(text)), Error);
      ++n_refused;
      continue;
    }
    const auto vocabulary = random_vocabulary(random);
    GrammarMatcher matcher(
        std::make_shared<const GrammarMasks>(CompiledGrammar(parse_gbnf(text)), vocabulary));
    std::vector<uint32_t> mask(matcher.masks().n_words(), 0xdeadbeef);
    std::string written;
    for (int step = 0; step < 12; ++step, ++n_steps) {
      SCOPED_TRACE(written);
      const std::vector<bool> allowed = allowed_tokens(reference, *vocabulary, step == 0);
      ASSERT_EQ(matcher.fill_mask(mask), std::ranges::find(allowed, true) != allowed.end());
      ASSERT_EQ(matcher.may_end(), reference.may_end());
      std::vector<int32_t> choices;
      for (size_t i = 0; i < allowed.size(); ++i) {
        const auto id = static_cast<int32_t>(i);
        ASSERT_EQ(has(mask, id), allowed[i]) << "token " << i << " " << vocabulary->bytes_of(id);
        GrammarMatcher copy = matcher;
        ASSERT_EQ(copy.accept(id), allowed[i]) << "token " << i;
        if (allowed[i] && id != kStop) choices.push_back(id);
      }
      ASSERT_EQ(matcher.forced_bytes(8), forced_text(reference, 8));
      if (choices.empty()) {
        ++n_texts;
        break;
      }
      const int32_t chosen = choices[random() % choices.size()];
      ASSERT_TRUE(matcher.accept(chosen));
      reference.advance(text_of(*vocabulary, chosen, step == 0));
      written += text_of(*vocabulary, chosen, step == 0);
    }
  }
  EXPECT_GT(n_texts, static_cast<int>(damage_rounds(1500) / 10));
  EXPECT_GT(n_steps, static_cast<int>(damage_rounds(1500)));
  EXPECT_GT(n_refused, static_cast<int>(damage_rounds(1500) / 50));
}

std::shared_ptr<const GrammarMasks> masks_of(std::string_view gbnf) {
  std::vector<std::string> texts = {"", "aa", "aaa", "</s>", "aa\""};
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  return std::make_shared<const GrammarMasks>(CompiledGrammar(parse_gbnf(gbnf)),
                                              vocabulary_of(texts, {kStop}));
}

TEST(GrammarMatcher, EndsWithAStopTokenWhereTheTextMayEnd) {
  GrammarMatcher matcher(masks_of(R"(root ::= "ab" "c"?)"));
  std::vector<uint32_t> mask(matcher.masks().n_words());
  EXPECT_FALSE(matcher.accept(kStop));
  ASSERT_TRUE(matcher.accept_bytes("ab"));
  EXPECT_TRUE(matcher.may_end());
  EXPECT_FALSE(matcher.is_complete());
  GrammarMatcher longer = matcher;
  ASSERT_TRUE(longer.accept_bytes("c"));
  EXPECT_TRUE(longer.is_complete());
  ASSERT_TRUE(matcher.accept(kStop));
  EXPECT_TRUE(matcher.is_complete());
  EXPECT_FALSE(matcher.fill_mask(mask));
  EXPECT_FALSE(matcher.accept(kStop));
}

TEST(GrammarMatcher, RefusesIdsThatAreNoText) {
  GrammarMatcher matcher(masks_of("root ::= .*"));
  for (const int32_t id : {-1, 0, 1 << 20}) EXPECT_FALSE(matcher.accept(id)) << id;
  EXPECT_TRUE(matcher.accept(1));
}

TEST(GrammarMatcher, CountsRepetitionsToTheByte) {
  GrammarMatcher matcher(masks_of("root ::= .{998,1000}"));
  for (int i = 0; i < 332; ++i) ASSERT_TRUE(matcher.accept_bytes("aaa"));
  EXPECT_FALSE(matcher.may_end());
  std::vector<uint32_t> mask(matcher.masks().n_words());
  ASSERT_TRUE(matcher.accept_bytes("a"));
  matcher.fill_mask(mask);
  EXPECT_TRUE(has(mask, 2));
  ASSERT_TRUE(matcher.accept_bytes("a"));
  EXPECT_TRUE(matcher.may_end());
  matcher.fill_mask(mask);
  EXPECT_TRUE(has(mask, 1));
  EXPECT_FALSE(has(mask, 2));
}

TEST(GrammarMatcher, AllowsATokenToLeaveARepetitionThatMayEnd) {
  GrammarMatcher matcher(masks_of(R"(root ::= [^"]{3,6} "\"")"));
  std::vector<uint32_t> mask(matcher.masks().n_words());
  for (int n = 0; n <= 6; ++n) {  // token 4 is two characters and the end
    matcher.fill_mask(mask);
    EXPECT_EQ(has(mask, 4), n >= 1 && n <= 4) << n;
    EXPECT_EQ(matcher.accept_bytes("a"), n < 6) << n;
  }
}

TEST(GrammarMatcher, KeepsItsPlaceInDeepRecursion) {
  GrammarMatcher matcher(masks_of(R"gbnf(root ::= "(" root ")" | "x")gbnf"));
  for (int i = 0; i < 10000; ++i) ASSERT_TRUE(matcher.accept_bytes("("));
  ASSERT_TRUE(matcher.accept_bytes("x"));
  for (int i = 0; i < 9999; ++i) ASSERT_TRUE(matcher.accept_bytes(")"));
  EXPECT_FALSE(matcher.may_end());
  ASSERT_TRUE(matcher.accept_bytes(")"));
  EXPECT_TRUE(matcher.is_complete());
}

TEST(GrammarMatcher, GivesCopiesOfSeveralThreadsTheSameMasks) {
  const auto masks = masks_of(R"(
root  ::= value
value ::= "{" (word ":" value ("," word ":" value)*)? "}" | "[" (value ("," value)*)? "]" | word
word  ::= [a-c]{1,40})");
  constexpr std::string_view kText = "{abc:[a,{b:aaaaaa,c:[]}],aa:b}";
  const auto masks_along = [&](GrammarMatcher matcher) {
    std::vector<std::vector<uint32_t>> all;
    for (const char c : kText) {
      all.emplace_back(masks->n_words());
      matcher.fill_mask(all.back());
      EXPECT_TRUE(matcher.accept_bytes({&c, 1}));
    }
    return all;
  };
  const GrammarMatcher start(masks);
  std::vector<std::vector<std::vector<uint32_t>>> found(4);
  std::vector<std::thread> threads;
  for (auto& one : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) one = masks_along(start);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto expected = masks_along(GrammarMatcher(masks_of(R"(
root  ::= value
value ::= "{" (word ":" value ("," word ":" value)*)? "}" | "[" (value ("," value)*)? "]" | word
word  ::= [a-c]{1,40})")));
  for (const auto& one : found) EXPECT_EQ(one, expected);
}

TEST(GrammarMatcher, NamesAGrammarThatIsTooAmbiguous) {
  // Every way to divide a text is a reading of its own.
  std::string rules = "root ::= r0\n";
  for (int i = 0; i < 300; ++i) {
    rules +=
        "r" + std::to_string(i) + " ::= .{0,900} \"x\" .{0,900} r" + std::to_string(i + 1) + "?\n";
  }
  rules += "r300 ::= \"y\"";
  GrammarMatcher matcher(masks_of(rules));
  try {
    for (int i = 0; i < 2000 && matcher.accept_bytes("x"); ++i) {
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("too ambiguous"), std::string::npos);
    return;
  }
  FAIL() << "expected an error";
}

TEST(TokenVocabulary, LetsATokenizersTokensSpellTheTextThatTheyDecodeTo) {
  constexpr std::string_view kText = "The word of the year is one.";
  for (const char* name : {"gemma", "llama2", "mistral", "qwen2", "spm_gemma", "spm_llama"}) {
    SCOPED_TRACE(name);
    const auto tokenizer = open_text_tokenizer(std::filesystem::path(TOKENIZER_FOLDER) / name);
    GrammarMatcher matcher(std::make_shared<const GrammarMasks>(
        CompiledGrammar(parse_gbnf("root ::= \"" + std::string(kText) + "\"")),
        std::make_shared<const TokenVocabulary>(*tokenizer)));
    const std::vector<int32_t> tokens = tokenizer->encode(kText, false, false);
    std::vector<uint32_t> mask(matcher.masks().n_words());
    for (const int32_t token : tokens) {
      matcher.fill_mask(mask);
      EXPECT_TRUE(has(mask, token)) << token;
      EXPECT_TRUE(matcher.accept(token)) << token;
    }
    EXPECT_TRUE(matcher.may_end());
    EXPECT_EQ(tokenizer->decode(tokens), kText);
  }
}

TEST(TokenVocabulary, RefusesStopTokensOutOfRange) {
  EXPECT_THROW(vocabulary_of({"a", "b"}, {2}), Error);
  EXPECT_THROW(vocabulary_of({"a", "b"}, {-1}), Error);
}

}  // namespace
}  // namespace vesper::grammar_matcher_test

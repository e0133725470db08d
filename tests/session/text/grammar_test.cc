// TextSession: answers that a grammar holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <set>

#include "tests/session/text/tiny_text_fixture.h"

namespace vesper::tiny_text_test {
namespace {

using testing::StartsWith;

TEST_F(TinyText, AnswersWithTextsOfAGrammar) {
  options_.n_slots = 3;
  options_.logit_bias = {{2, -INFINITY}, {3, -INFINITY}};  // no thinking
  TextSession& session = open();
  const Ids prompt = session.model().text_ids("abc");
  const std::string free_text = session.answer({prompt, limit(20)}).text;
  TextOptions options = limit(40);
  options.sampling.temperature = 1;
  options.grammar = {{.text = "root ::= (\"ab\" | \"cd\"){2,5} \" \" [e-g]+ \"end\""}};
  std::vector<TextAnswer> answers;
  size_t n_given = 0;
  session.answer_many([&](bool) -> std::optional<TextJob> {
    if (n_given == 30) return std::nullopt;
    TextJob job{.request = {prompt, options},
                .on_done = [&](TextAnswer answer) { answers.push_back(std::move(answer)); }};
    job.request.options.sampling.seed = static_cast<uint32_t>(n_given);
    // A free text beside those of the grammar.
    if (n_given++ == 1) job.request.options = limit(20);
    return job;
  });
  ASSERT_EQ(answers.size(), 30u);
  size_t n_whole = 0;
  std::set<std::string> texts;
  for (const TextAnswer& answer : answers) {
    if (answer.text == free_text) continue;
    texts.insert(answer.text);
    EXPECT_THAT(answer.text, testing::MatchesRegex("(ab|cd)+ [e-g]*(e|en|end)?"));
    if (answer.end == AnswerEnd::kLimit) continue;
    EXPECT_EQ(answer.end, AnswerEnd::kEnd);
    EXPECT_THAT(answer.text, testing::MatchesRegex("(abab|abcd|cdab|cdcd)(ab|cd)* [e-g]+end"));
    ++n_whole;
  }
  EXPECT_GE(n_whole, 10u);
  EXPECT_GE(texts.size(), 10u);
  EXPECT_EQ(session.answer({prompt, limit(20)}).text, free_text);
}

TEST_F(TinyText, EndsATextThatCanOnlyEndWithoutAnotherToken) {
  options_.logit_bias = {{2, -INFINITY}, {3, -INFINITY}};
  TextSession& session = open();
  TextOptions options = limit(20);
  options.grammar = {{.notation = GrammarNotation::kRegex, .text = "(a|b)c"}};
  const TextAnswer answer = session.answer({session.model().text_ids("abc"), options});
  EXPECT_THAT(answer.text, testing::MatchesRegex("[ab]c"));
  EXPECT_EQ(answer.tokens.size(), 2u);
  EXPECT_EQ(answer.end, AnswerEnd::kEnd);
}

TEST_F(TinyText, BeginsAGrammarAfterAText) {
  options_.logit_bias = {{2, -INFINITY}, {3, -INFINITY}};
  TextSession& session = open();
  const Ids prompt = session.model().text_ids("abc");
  const std::string free_text = session.answer({prompt, limit(20)}).text;
  TextOptions options = limit(20);
  options.grammar = {{.notation = GrammarNotation::kRegex, .text = "xyz+"}};
  options.grammar->after = free_text.substr(4, 2);
  const TextAnswer answer = session.answer({prompt, options});
  EXPECT_THAT(answer.text, StartsWith(free_text.substr(0, 6)));
  EXPECT_THAT(answer.text.substr(6), testing::MatchesRegex(" ?xyz+"));
}

TEST_F(TinyText, NamesTheSettingOfAWrongGrammar) {
  TextSession& session = open();
  const Ids prompt = session.model().text_ids("abc");
  const auto setting = [&](GrammarNotation notation, const std::string& text) {
    TextOptions options = limit(5);
    options.grammar = {{.notation = notation, .text = text, .after = ""}};
    return setting_of([&] { session.answer({prompt, options}); });
  };
  EXPECT_EQ(setting(GrammarNotation::kGbnf, "root ::= missing"), "grammar");
  EXPECT_EQ(setting(GrammarNotation::kJsonSchema, "{\"type\": \"gift\"}"), "JSON schema");
  EXPECT_EQ(setting(GrammarNotation::kRegex, "a(b"), "regex");
  // The vocabulary cannot spell it.
  EXPECT_EQ(setting(GrammarNotation::kRegex, "€"), "grammar");
  options_.beam_size = 2;
  TextSession& beams = open();
  TextOptions options = limit(5);
  options.grammar = {{.notation = GrammarNotation::kRegex, .text = "a"}};
  EXPECT_EQ(setting_of([&] { beams.answer({prompt, options}); }), "grammar");
}

}  // namespace
}  // namespace vesper::tiny_text_test

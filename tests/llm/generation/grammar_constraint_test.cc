// Masks and forced tokens of a grammar's text, with real vocabularies.
#include "llm/generation/grammar_constraint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "llm/files/mapped_file.h"
#include "llm/grammar/gbnf.h"
#include "llm/tokenizer/files/open_text_tokenizer.h"

namespace vesper::grammar_constraint_test {
namespace {

struct Vocabulary {
  explicit Vocabulary(const std::filesystem::path& path)
      : tokenizer(open_text_tokenizer(ModelFiles(path))),
        tokens(std::make_shared<const TokenVocabulary>(*tokenizer)) {}

  GrammarConstraint constraint(const std::string& grammar, GrammarStart start = {}) const {
    return GrammarConstraint(GrammarMatcher(std::make_shared<const GrammarMasks>(
                                 CompiledGrammar(parse_gbnf(grammar)), tokens)),
                             tokenizer.get(), std::move(start));
  }

  std::unique_ptr<TextTokenizer> tokenizer;
  std::shared_ptr<const TokenVocabulary> tokens;
};

bool has_bit(const std::vector<uint32_t>& bits, int32_t id) {
  return (bits[static_cast<uint32_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32) & 1u) != 0;
}

class GrammarConstraints : public testing::TestWithParam<const char*> {
 protected:
  const Vocabulary vocabulary_{std::filesystem::path(TOKENIZER_FOLDER) / GetParam()};
};

// A model that writes the tokenizer's tokens of a text gets the same ones where they are forced.
TEST_P(GrammarConstraints, ForceTheTokensOfTheTokenizer) {
  const std::string grammar =
      R"(root ::= "{\"name\": \"" [a-zé ]+ "\", \"years of age\": " [0-9]+ ", \"occupation\": \"" )"
      R"((("wood" | "metal") "worker" | "unemployed") "\"}")";
  size_t n_forced = 0;
  for (const std::string text : {
           R"({"name": "anna", "years of age": 34, "occupation": "unemployed"})",
           R"({"name": "the man next door", "years of age": 7, "occupation": "woodworker"})",
           R"({"name": "rené", "years of age": 101, "occupation": "metalworker"})",
           R"({"name": " ", "years of age": 0, "occupation": "woodworker"})",
       }) {
    SCOPED_TRACE(text);
    GrammarConstraint constraint = vocabulary_.constraint(grammar);
    const std::vector<int32_t> ids = vocabulary_.tokenizer->encode(text, false, false);
    std::vector<uint32_t> mask(vocabulary_.tokens->n_words());
    for (size_t at = 0; at < ids.size();) {
      const std::vector<int32_t> forced = constraint.take_forced(ids.size());
      ASSERT_LE(at + forced.size(), ids.size());
      for (size_t i = 0; i < forced.size(); ++i) ASSERT_EQ(forced[i], ids[at + i]) << at + i;
      at += forced.size();
      n_forced += forced.size();
      if (at == ids.size()) break;
      ASSERT_FALSE(constraint.is_complete());
      ASSERT_TRUE(constraint.fill_mask(mask));
      ASSERT_TRUE(has_bit(mask, ids[at])) << at;
      ASSERT_TRUE(constraint.accept(ids[at])) << at;
      ++at;
    }
    EXPECT_TRUE(constraint.is_complete());
    EXPECT_TRUE(constraint.take_forced(10).empty());
  }
  // A tokenizer that begins every text with a space has few, or none.
  if (vocabulary_.tokens->drops_first_space()) return;
  EXPECT_GT(n_forced, 20u);
}

TEST_P(GrammarConstraints, TakeNoMoreForcedTokensThanAllowed) {
  if (vocabulary_.tokens->drops_first_space()) return;
  const std::string text = "A sentence of many words, all of which the grammar demands.";
  const std::vector<int32_t> ids = vocabulary_.tokenizer->encode(text, false, false);
  GrammarConstraint constraint = vocabulary_.constraint("root ::= \"" + text + "\"");
  std::vector<int32_t> taken = constraint.take_forced(4);
  ASSERT_EQ(taken.size(), 4u);
  const std::vector<int32_t> rest = constraint.take_forced(100);
  taken.insert(taken.end(), rest.begin(), rest.end());
  ASSERT_LE(taken.size(), ids.size());
  EXPECT_TRUE(std::equal(taken.begin(), taken.end(), ids.begin()));
}

TEST_P(GrammarConstraints, LeaveTheTextBeforeThemFree) {
  GrammarConstraint constraint = vocabulary_.constraint("root ::= [0-9]+", {.after = "number:"});
  std::vector<uint32_t> mask(vocabulary_.tokens->n_words());
  for (const int32_t id : vocabulary_.tokenizer->encode("So I say the number:", false, false)) {
    ASSERT_TRUE(constraint.fill_mask(mask));
    EXPECT_TRUE(has_bit(mask, id));
    for (const int32_t stop : vocabulary_.tokens->stop_ids()) EXPECT_FALSE(has_bit(mask, stop));
    ASSERT_TRUE(constraint.accept(id));
  }
  ASSERT_TRUE(constraint.fill_mask(mask));
  for (uint32_t id = 0; id < vocabulary_.tokens->n_tokens(); ++id) {
    const std::string_view bytes = vocabulary_.tokens->bytes_of(static_cast<int32_t>(id));
    const bool is_allowed = bytes.find_first_not_of("0123456789") == std::string_view::npos ||
                            bytes.find_first_not_of(" \n\r\t") == std::string_view::npos;
    EXPECT_EQ(has_bit(mask, static_cast<int32_t>(id)), is_allowed && !bytes.empty()) << bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, GrammarConstraints,
                         testing::Values("gpt2", "qwen2", "llama3", "smollm", "tekken", "deepseek3",
                                         "llama2", "mistral", "gemma"));

}  // namespace
}  // namespace vesper::grammar_constraint_test

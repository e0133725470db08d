#include <gtest/gtest.h>

#include <filesystem>

#include "llm/devices/open_device.h"
#include "llm/generation/generator.h"
#include "llm/generation/model_drafts.h"
#include "llm/generation/ngram_drafts.h"
#include "llm/grammar/gbnf.h"
#include "llm/weights/weight_provider.h"
#include "tests/llm/counted_allocations.h"
#include "tests/llm/models/wide_heads.h"

namespace vesper::generator_allocation_test {
namespace {

class GeneratorAllocation : public testing::Test {
 protected:
  void SetUp() override {
    if (!kAllocationsAreCounted) GTEST_SKIP() << "a sanitizer replaces malloc";
  }
  // The next text, of n_tokens after the first n_first tokens of the prompt, allocates nothing. The
  // text before it records its step.
  static void expect_no_allocations(Generator& generator, const std::vector<int32_t>& prompt,
                                    size_t n_first, uint32_t n_tokens, const Sampling& sampling) {
    generator.start(0, prompt, 2, sampling);
    generator.advance(2);
    const uint64_t before = n_allocations();
    generator.start(0, std::span(prompt).first(n_first), n_tokens, sampling);
    while (generator.advance(3)) {
    }
    EXPECT_EQ(n_allocations() - before, 0u);
    EXPECT_EQ(generator.sampled(0).size(), n_tokens);
  }

  const std::unique_ptr<WeightProvider> weights =
      open_weights(std::filesystem::path(VESPER_TEST_DATA) / "language_models/gemma3");
  const std::unique_ptr<Device> device = open_device("cpu", {.n_threads = 2});
};

TEST_F(GeneratorAllocation, StepsOfLoadedModelsAllocateNothing) {
  Generator generator(*device, *weights, Compute::kF32, {.n_ctx = 64});
  Sampling sampling;
  sampling.temperature = 1;
  sampling.top_k = 20;
  sampling.typical_p = 0.9f;
  sampling.top_p = 0.9f;
  sampling.min_p = 0.01f;
  sampling.presence_penalty = 0.5f;
  expect_no_allocations(generator, {1, 2, 3, 4, 5, 6, 7}, 3, 40, sampling);
}

TEST_F(GeneratorAllocation, StepsWithAQuantizedCacheAllocateNothing) {
  const WideHeads folder(std::filesystem::path(VESPER_TEST_DATA) / "language_models");
  const auto wide = open_weights(folder.path());
  Generator generator(*device, *wide, Compute::kF32,
                      {.n_ctx = 64, .kv_types = {DType::kQ8_0, DType::kQ4_0}});
  expect_no_allocations(generator, {1, 2, 3, 4, 5, 6, 7}, 3, 40, {});
}

TEST_F(GeneratorAllocation, DraftsAllocateNothing) {
  NgramDrafts drafts;
  Generator generator(*device, *weights, Compute::kF32, {.n_ctx = 64}, &drafts);
  Sampling sampling;
  sampling.repetition_penalty = 1.01f;
  expect_no_allocations(generator, {1, 2, 1, 2, 1, 2, 1, 2}, 7, 50, sampling);
  EXPECT_GT(generator.speculation(0).n_drafted, 0u);
}

TEST_F(GeneratorAllocation, DraftsOfAModelAllocateNothing) {
  GeneratorOptions options;
  options.n_ctx = 64;
  options.resumes = true;
  options.least_draft_gain = 0;
  ModelDrafts drafts(*device, *weights, Compute::kF32, options, weights->config().n_vocab);
  Generator generator(*device, *weights, Compute::kF32, options, &drafts);
  Sampling sampling;
  sampling.temperature = 1;
  sampling.repetition_penalty = 1.01f;
  expect_no_allocations(generator, {1, 2, 3, 4, 5, 6, 7}, 3, 50, sampling);
  EXPECT_GT(generator.speculation(0).n_accepted, 20u);
}

// The first text caches the masks, and the first steps of a text size the matcher's buffers.
TEST_F(GeneratorAllocation, StepsAndDraftsWithAGrammarAllocateNothing) {
  GeneratorOptions options;
  options.n_ctx = 64;
  options.resumes = true;
  options.least_draft_gain = 0;
  ModelDrafts drafts(*device, *weights, Compute::kF32, options, weights->config().n_vocab);
  Generator generator(*device, *weights, Compute::kF32, options, &drafts);
  // Token i spells the letter number i % 26.
  const std::string letters = "abcdefghijklmnopqrstuvwxyz";
  std::vector<std::string_view> spellings;
  for (size_t i = 0; i < generator.n_vocab(); ++i) {
    spellings.push_back(std::string_view(letters).substr(i % 26, 1));
  }
  const auto vocabulary =
      std::make_shared<const TokenVocabulary>(spellings, std::vector<int32_t>{});
  const GrammarConstraint grammar(GrammarMatcher(std::make_shared<const GrammarMasks>(
      CompiledGrammar(parse_gbnf("root ::= (short | [q-z])+\nshort ::= [a-f] [g-p]{1,3}")),
      vocabulary)));
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 6, 7};
  generator.start(0, prompt, 40, {}, {.grammar = &grammar});
  while (generator.advance(3)) {
  }
  generator.start(0, prompt, 40, {}, {.grammar = &grammar});
  generator.advance(8);
  const uint64_t before = n_allocations();
  while (generator.advance(3)) {
  }
  EXPECT_EQ(n_allocations() - before, 0u);
  ASSERT_EQ(generator.sampled(0).size(), 40u);
  EXPECT_GT(generator.speculation(0).n_drafted, 0u);
  const int32_t first = generator.sampled(0)[0] % 26;
  EXPECT_TRUE(first < 6 || first >= 16) << first;
}

}  // namespace
}  // namespace vesper::generator_allocation_test

// Drafts of a generator: whatever drafts, the tokens are those without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "llm/generation/model_drafts.h"
#include "llm/generation/ngram_drafts.h"
#include "llm/grammar/gbnf.h"
#include "tests/llm/models/tiny_model.h"
#include "tests/llm/test_devices.h"

namespace vesper::speculation_test {
namespace {

using Tokens = std::vector<int32_t>;

struct Text {
  Tokens prompt;
  Sampling sampling = {};
  uint32_t most = 40;
  std::vector<std::pair<int32_t, float>> bias = {};
  const GrammarConstraint* grammar = nullptr;
};

std::vector<Text> texts() {
  std::vector<Text> texts = {
      {{5, 9, 2, 5, 9, 1}}, {{7, 7, 3}}, {{1}}, {{4, 4, 4}, {}, 1}, {{8, 3}}};
  texts[1].sampling.temperature = 1.5f;
  texts[1].sampling.seed = 3;
  texts[2].sampling = {.temperature = 1, .top_k = 20, .top_p = 0.9f, .seed = 5};
  texts[4].sampling = {.temperature = 1,
                       .repetition_penalty = 1.5f,
                       .frequency_penalty = 0.4f,
                       .no_repeat_ngram_size = 2,
                       .seed = 8};
  texts[4].bias = {{11, 2.0f}, {12, -1.0f}};
  return texts;
}

struct Answers {
  std::vector<Tokens> tokens;
  SpeculationStatistics statistics;
};

// The texts in the slots of a generator, each as soon as a slot is free.
Answers answer(Generator& generator, const std::vector<Text>& texts) {
  Answers answers;
  answers.tokens.resize(texts.size());
  std::vector<size_t> text_of(generator.n_slots(), texts.size());
  size_t next = 0;
  for (bool is_busy = true; is_busy;) {
    is_busy = false;
    for (uint32_t slot = 0; slot < generator.n_slots(); ++slot) {
      if (generator.is_running(slot)) {
        is_busy = true;
        continue;
      }
      if (text_of[slot] < texts.size()) {
        const auto sampled = generator.sampled(slot);
        answers.tokens[text_of[slot]].assign(sampled.begin(), sampled.end());
        answers.statistics.n_drafted += generator.speculation(slot).n_drafted;
        answers.statistics.n_accepted += generator.speculation(slot).n_accepted;
        text_of[slot] = texts.size();
      }
      if (next == texts.size()) continue;
      const Text& text = texts[next];
      generator.start(slot, text.prompt, text.most, text.sampling,
                      {.bias = text.bias, .grammar = text.grammar});
      text_of[slot] = next++;
      is_busy = true;
    }
    generator.advance(3);
  }
  return answers;
}

GeneratorOptions options_for(uint32_t n_slots, uint32_t n_ctx = 64) {
  GeneratorOptions options;
  options.n_ctx = n_ctx;
  options.n_slots = n_slots;
  options.kv_types = DType::kF32;
  options.resumes = true;
  options.least_draft_gain = 0;  // times of tiny models do not matter
  return options;
}

// Drafts of `draft` for `family`; returns the share of accepted tokens.
double check_drafts(const std::string& device_name, const char* family, const char* draft) {
  SCOPED_TRACE(std::string(family) + " with drafts of " + draft + " on " + device_name);
  const auto device = open_test_device(device_name);
  const auto weights = tiny_model(family), draft_weights = tiny_model(draft);
  SpeculationStatistics all;
  for (const uint32_t n_slots : {1u, 3u}) {
    const GeneratorOptions options = options_for(n_slots);
    Generator plain(*device, *weights, Compute::kF32, options);
    ModelDrafts drafts(*device, *draft_weights, Compute::kF32, options, plain.n_vocab());
    Generator generator(*device, *weights, Compute::kF32, options, &drafts);
    const Tokens wanted_stop = answer(plain, texts()).tokens[1];
    for (const bool has_stop : {false, true}) {
      const Tokens stops = has_stop ? Tokens{wanted_stop[20]} : Tokens{};
      plain.set_stop_ids(stops);
      generator.set_stop_ids(stops);
      drafts.set_stop_ids(stops);
      const Answers wanted = answer(plain, texts()), found = answer(generator, texts());
      EXPECT_EQ(found.tokens, wanted.tokens);
      EXPECT_EQ(answer(generator, texts()).tokens, wanted.tokens) << "with cached prompts";
      all.n_drafted += found.statistics.n_drafted;
      all.n_accepted += found.statistics.n_accepted;
    }
  }
  EXPECT_GT(all.n_drafted, 100u);
  return static_cast<double>(all.n_accepted) / static_cast<double>(all.n_drafted);
}

TEST(ModelDrafts, ChangeNoTokens) {
  // A model that is its own draft samples the same tokens, with noise and penalties too.
  for (const char* family : {"llama", "gemma3", "qwen3"}) {
    EXPECT_GT(check_drafts("cpu", family, family), 0.95);
  }
  EXPECT_LT(check_drafts("cpu", "llama", "qwen3"), 0.5);
  EXPECT_LT(check_drafts("cpu", "gemma3", "llama"), 0.5);
}

TEST(ModelDrafts, AccessOnlyDeclaredMemoryInAnyOrder) {
  check_drafts("checked cpu", "llama", "llama");
}

#ifdef VESPER_HAS_VULKAN
TEST(ModelDrafts, ChangeNoTokensOnVulkan) {
  EXPECT_GT(check_drafts("vulkan", "llama", "llama"), 0.9);
  EXPECT_LT(check_drafts("vulkan", "gemma3", "llama"), 0.5);
}
#endif

// The draft model has a shorter context.
TEST(ModelDrafts, EndWhereTheContextOfTheDraftModelEnds) {
  const auto device = open_test_device("cpu");
  const auto weights = tiny_model("llama");
  Generator plain(*device, *weights, Compute::kF32, options_for(1));
  ModelDrafts drafts(*device, *weights, Compute::kF32, options_for(1, 20), plain.n_vocab());
  Generator generator(*device, *weights, Compute::kF32, options_for(1), &drafts);
  const std::vector<Text> text = {{{5, 9, 2}, {}, 50}, {Tokens(30, 3), {}, 20}};
  const Answers found = answer(generator, text);
  EXPECT_EQ(found.tokens, answer(plain, text).tokens);
  EXPECT_GT(found.statistics.n_drafted, 5u);
  EXPECT_LE(found.statistics.n_drafted, 17u);
}

// Both vocabularies are padded: the draft model reads no token above its own, and none of its
// tokens above those of the model are run.
TEST(ModelDrafts, StayInTheVocabulary) {
  const auto device = open_test_device("cpu");
  const auto weights = tiny_model("llama");
  Generator plain(*device, *weights, Compute::kF32, options_for(1));
  constexpr uint32_t kFew = 8;
  ModelDrafts drafts(*device, *weights, Compute::kF32, options_for(1), kFew);
  drafts.prepare(1, 64);
  const Tokens prompt = {5, 9, 2};
  drafts.start(0, prompt, {}, {}, {});
  uint32_t n_left_out = 0;
  for (int32_t last = 0; last < 64; ++last) {
    drafts.start(0, prompt, {}, {}, {});
    const Tokens text = {5, 9, 2, last};
    Guess guess;
    guess.text = text;
    guess.most = 8;
    drafts.begin(guess);
    Guess* guesses[] = {&guess};
    while (!guess.is_complete) drafts.extend(guesses);
    n_left_out += guess.n < 8;
    for (uint32_t i = 1; i <= guess.n; ++i) EXPECT_LT(guess.tokens[i], static_cast<int32_t>(kFew));
  }
  EXPECT_GT(n_left_out, 30u);
  const Tokens beyond = {5, 9, 2, static_cast<int32_t>(plain.n_vocab())};
  drafts.start(0, prompt, {}, {}, {});
  Guess guess;
  guess.text = beyond;
  guess.most = 8;
  drafts.begin(guess);
  EXPECT_TRUE(guess.is_complete);
  EXPECT_EQ(guess.n, 0u);
}

// Drafts of the right tokens, of which every fourth is another.
class KnownDrafts : public DraftSource {
 public:
  KnownDrafts(const std::vector<Text>& texts, const Answers& answers)
      : texts_(texts), answers_(answers) {}

  void prepare(uint32_t n_slots, uint32_t) override { text_of_.resize(n_slots); }
  std::array<double, kGuessClasses> first_acceptance() const override { return {1, 1, 1, 1, 1}; }
  void start(uint32_t slot, std::span<const int32_t> prompt, const Sampling&,
             std::span<const TokenBias>, const std::function<bool()>&) override {
    const auto found = std::ranges::find_if(
        texts_, [&](const Text& text) { return std::ranges::equal(text.prompt, prompt); });
    text_of_[slot] = static_cast<size_t>(found - texts_.begin());
  }
  void begin(Guess& guess) override {
    const size_t text = text_of_[guess.slot];
    const Tokens& wanted = answers_.tokens[text];
    size_t at = guess.text.size() - texts_[text].prompt.size();
    for (; !guess.is_complete; ++at) {
      const int32_t right = at < wanted.size() ? wanted[at] : 1;
      guess.add(at % 4 == 3 ? (right + 1) % 64 : right, 0);
    }
  }
  void extend(std::span<Guess* const>) override {}

 private:
  const std::vector<Text>& texts_;
  const Answers& answers_;
  std::vector<size_t> text_of_;  // [n_slots]
};

// A token is a character, 0 the end.
TextTokenizer character_tokenizer() {
  constexpr std::string_view kCharacters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,!?;:-{}\"";
  TokenizerParts parts;
  parts.spellings = {"<end>"};
  for (const char c : kCharacters) parts.spellings.emplace_back(1, c);
  parts.added = {{.spelling = "<end>", .id = 0, .special = true}};
  parts.eos = 0;
  parts.encode_piece = [kCharacters](std::string_view piece, std::vector<int32_t>& ids) {
    for (const char c : piece) ids.push_back(static_cast<int32_t>(kCharacters.find(c)) + 1);
  };
  return TextTokenizer(std::move(parts));
}

// Texts that must follow are taken without the model, with drafts too.
TEST(Drafts, ChangeNoTextsOfGrammars) {
  const TextTokenizer tokenizer = character_tokenizer();
  const auto vocabulary = std::make_shared<const TokenVocabulary>(tokenizer);
  const auto constraint = [&](const std::string& grammar, GrammarStart start = {}) {
    return GrammarConstraint(GrammarMatcher(std::make_shared<const GrammarMasks>(
                                 CompiledGrammar(parse_gbnf(grammar)), vocabulary)),
                             &tokenizer, std::move(start));
  };
  const GrammarConstraint grammars[] = {
      constraint("root ::= (\"ab\" | \"cdefg\" | [e-z]){9,60}"),
      constraint("root ::= \"{\" pair (\",\" pair){1,9} \"}\"\n"
                 "pair ::= \"\\\"\" [a-d]{1,4} \"\\\":\" ([A-Z]{2} | \"yes\" | \"no\")"),
      constraint("root ::= [A-Z]+ \".\"", {.after = "-"})};
  std::vector<Text> texts;
  for (int32_t i = 0; i < 12; ++i) {
    Text& text =
        texts.emplace_back(Text{{7, 8, 9, i}, {.temperature = i % 2 ? 1.0f : 0, .seed = 4}});
    text.most = 30 + static_cast<uint32_t>(i);
    text.grammar = i % 4 == 3 ? nullptr : &grammars[i % 4];
    if (i == 2) text.bias = {{60, 20.0f}};
  }
  for (const std::string& name : plain_test_devices()) {
    const auto device = open_test_device(name);
    const auto weights = tiny_model("llama");
    for (const uint32_t n_slots : {1u, 3u}) {
      SCOPED_TRACE(name + ", " + std::to_string(n_slots) + " slots");
      Generator plain(*device, *weights, Compute::kF32, options_for(n_slots));
      plain.set_stop_ids(tokenizer.stop_ids());
      const Answers wanted = answer(plain, texts);
      KnownDrafts drafts(texts, wanted);
      Generator generator(*device, *weights, Compute::kF32, options_for(n_slots), &drafts);
      generator.set_stop_ids(tokenizer.stop_ids());
      const Answers found = answer(generator, texts);
      for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(found.tokens[i], wanted.tokens[i]) << i;
      EXPECT_GT(found.statistics.n_accepted, 60u);
      EXPECT_GT(found.statistics.n_drafted, found.statistics.n_accepted);
    }
  }
}

TEST(NgramDrafts, ChangeNoTokens) {
  const auto device = open_test_device("cpu");
  const auto weights = tiny_model("llama");
  for (const uint32_t n_slots : {1u, 3u}) {
    Generator plain(*device, *weights, Compute::kF32, options_for(n_slots));
    NgramDrafts drafts;
    Generator generator(*device, *weights, Compute::kF32, options_for(n_slots), &drafts);
    const Answers found = answer(generator, texts());
    EXPECT_EQ(found.tokens, answer(plain, texts()).tokens);
    EXPECT_GT(found.statistics.n_drafted, 0u);
  }
}

}  // namespace
}  // namespace vesper::speculation_test

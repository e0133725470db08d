// Every family of language models against Hugging Face's transformers: tiny random models and their
// reference logits, made by tests/reference/make_language_models.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "error/error.h"
#include "llm/devices/open_device.h"
#include "llm/generation/generator.h"
#include "llm/weights/weight_provider.h"
#include "tests/child_process.h"
#include "tests/llm/kernels/reference_rows.h"
#include "tests/llm/test_devices.h"

namespace vesper::language_models_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAreArray;
using testing::FloatNear;
using testing::Pointwise;

constexpr uint32_t kPrompt = 12;

fs::path folder_of(const std::string& name) {
  return fs::path(VESPER_TEST_DATA) / "language_models" / name;
}

GeneratorOptions exact_options() { return {.n_ctx = 64, .kv_types = DType::kF32}; }

// The greatest difference of a row of logits from the reference's.
double error_of(const ReferenceRows& reference, uint32_t row, const float* logits,
                uint32_t n_vocab) {
  double worst = 0;
  for (uint32_t i = 0; i < n_vocab; ++i) {
    const double off = std::abs(double{logits[i]} - reference.values[row * n_vocab + i]);
    worst = std::isnan(off) ? INFINITY : std::max(worst, off);
  }
  return worst;
}

void check_family(const std::string& name, const std::string& device_name) {
  const ReferenceRows reference = read_reference_rows(folder_of(name));
  ASSERT_EQ(reference.ids.size(), 44u);
  const auto provider = open_weights(folder_of(name));
  const auto device = open_test_device(device_name);
  Generator generator(*device, *provider, Compute::kF32, exact_options());
  const uint32_t n_vocab = generator.n_vocab();

  // All positions at once.
  double worst = 0;
  generator.evaluate(reference.ids, [&](uint32_t first, uint32_t n, const float* logits) {
    for (uint32_t r = 0; r < n; ++r) {
      worst = std::max(worst, error_of(reference, first + r, logits + r * n_vocab, n_vocab));
    }
  });
  EXPECT_LT(worst, 1e-3) << "in one pass";

  // The prompt, then 32 greedy steps.
  const std::span<const int32_t> ids(reference.ids);
  generator.stop(0);
  // Another sequence in between, so that the cache cannot be reused.
  generator.start(0, std::vector<int32_t>{1, 2, 3}, 1, {});
  generator.advance(1);
  generator.start(0, ids.first(kPrompt), 32, {});
  std::vector<float> logits(n_vocab);
  worst = 0;
  for (uint32_t step = 0; step < 32; ++step) {
    generator.advance(1);
    generator.read_logits(0, logits.data());
    worst = std::max(worst, error_of(reference, kPrompt - 1 + step, logits.data(), n_vocab));
  }
  EXPECT_LT(worst, 1e-3) << "step by step";
  EXPECT_THAT(generator.sampled(0), ElementsAreArray(ids.subspan(kPrompt)));
}

// One folder per family.
std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_of(""))) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class LanguageModels : public testing::TestWithParam<std::string> {};

TEST_P(LanguageModels, EqualTransformersOnTheCpu) { check_family(GetParam(), "cpu"); }

TEST_P(LanguageModels, AccessOnlyDeclaredMemoryInAnyOrder) {
  for (const std::string& device : plain_test_devices()) {
    check_family(GetParam(), "checked " + device);
  }
}

#ifdef VESPER_HAS_VULKAN
TEST_P(LanguageModels, EqualTransformersOnVulkan) { check_family(GetParam(), "vulkan"); }

TEST_P(LanguageModels, AreCleanUnderTheValidationLayers) {
  check_family(GetParam(), "validated vulkan");
}
#endif

INSTANTIATE_TEST_SUITE_P(Families, LanguageModels, testing::ValuesIn(families()),
                         [](const testing::TestParamInfo<std::string>& family) {
                           std::string name = family.param;
                           std::erase(name, '-');
                           return name;
                         });

// A sequence must not depend on the others, nor on the previous contents of its slot.
void check_batch(const std::string& family, uint32_t n_slots) {
  SCOPED_TRACE(family);
  const auto provider = open_weights(folder_of(family));
  const std::vector<std::vector<int32_t>> prompts = {
      {60, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 9}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
  Sampling sampling;
  sampling.temperature = 1;
  sampling.top_p = 0.9f;
  sampling.repetition_penalty = 1.3f;
  sampling.seed = 11;
  const auto device = open_device("cpu", {});
  GeneratorOptions options = exact_options();
  options.n_slots = n_slots;
  Generator generator(*device, *provider, Compute::kF32, options);
  std::vector<std::vector<int32_t>> alone;
  for (const auto& prompt : prompts) {
    generator.start(0, prompt, 20, sampling);
    while (generator.advance(3)) {
    }
    const auto sampled = generator.sampled(0);
    alone.emplace_back(sampled.begin(), sampled.end());
    EXPECT_EQ(sampled.size(), 20u);
  }
  EXPECT_GT(generator.n_reused(0), 0u);  // the last prompt starts like an earlier one
  EXPECT_NE(alone[0], alone[3]);
  const auto text_of = [&](uint32_t slot) { return slot % prompts.size(); };
  for (uint32_t slot = 0; slot < n_slots; ++slot) {
    generator.start(slot, prompts[text_of(slot)], 20, sampling);
    generator.advance(2);
  }
  while (generator.advance(5)) {
  }
  for (uint32_t slot = 0; slot < n_slots; ++slot) {
    EXPECT_THAT(generator.sampled(slot), ElementsAreArray(alone[text_of(slot)])) << slot;
  }
}

TEST(Generator, AnswersTheSameAloneAndInABatch) {
  for (const char* family : {"qwen3", "qwen3-moe", "olmo2"}) check_batch(family, 3);
  // Rows of a step are grouped by expert where an expert has two on average: here from 4 on.
  for (const char* family : {"qwen3-moe", "qwen2-moe", "mixtral", "gpt-oss"}) {
    check_batch(family, 6);
  }
}

// Applies the rules of select_beams to whole sequences, each computed from the start.
std::vector<int32_t> plain_beam_search(Generator& model, std::vector<int32_t> prompt,
                                       uint32_t beam_size, uint32_t max_new,
                                       const std::vector<int32_t>& stop_ids) {
  struct Text {
    std::vector<int32_t> tokens;
    double sum = 0, score = 0;
  };
  std::vector<Text> live(1), ended;
  for (uint32_t step = 0; step < max_new && ended.size() < beam_size && !live.empty(); ++step) {
    std::vector<Text> extended;
    for (const Text& text : live) {
      std::vector<int32_t> all = prompt;
      all.insert(all.end(), text.tokens.begin(), text.tokens.end());
      std::vector<double> logits;
      model.evaluate(all, [&](uint32_t, uint32_t n, const float* rows) {
        logits.assign(rows + (n - 1) * model.n_vocab(), rows + n * model.n_vocab());
      });
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit);
      for (uint32_t id = 0; id < logits.size(); ++id) {
        Text& one = extended.emplace_back(text);
        one.tokens.push_back(static_cast<int32_t>(id));
        one.sum += logits[id] - std::log(sum);
      }
    }
    std::stable_sort(extended.begin(), extended.end(),
                     [](const Text& a, const Text& b) { return a.sum > b.sum; });
    live.clear();
    for (Text& text : extended) {
      if (live.size() == beam_size) break;
      if (std::find(stop_ids.begin(), stop_ids.end(), text.tokens.back()) == stop_ids.end()) {
        text.score = text.sum / static_cast<double>(text.tokens.size());
        live.push_back(text);
      } else if (ended.size() < beam_size) {
        text.score = text.sum / static_cast<double>(text.tokens.size());
        text.tokens.pop_back();
        ended.push_back(text);
      }
    }
  }
  for (size_t i = 0; i < live.size() && ended.size() < beam_size; ++i) ended.push_back(live[i]);
  return std::max_element(ended.begin(), ended.end(),
                          [](const Text& a, const Text& b) { return a.score < b.score; })
      ->tokens;
}

void check_beams(const std::string& family, const std::string& device_name) {
  const auto provider = open_weights(folder_of(family));
  const auto device = open_device(device_name, {});
  Generator plain(*device, *provider, Compute::kF32, exact_options());
  const std::vector<std::vector<int32_t>> prompts = {{60, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  const std::vector<int32_t> likeliest = plain_beam_search(plain, prompts[1], 1, 8, {});
  // No stop ids; one that occurs early; several.
  for (const std::vector<int32_t>& stop_ids :
       {std::vector<int32_t>{}, {likeliest[3]}, {likeliest[2], likeliest[5], 7, 8}}) {
    GeneratorOptions options = exact_options();
    options.n_slots = 2;
    options.beam_size = 4;
    Generator generator(*device, *provider, Compute::kF32, options);
    generator.set_stop_ids(stop_ids);
    // The second round reuses the caches of the first.
    for (int round = 0; round < 2; ++round) {
      for (uint32_t slot = 0; slot < 2; ++slot) {
        generator.start(slot, prompts[slot], 40, {});
      }
      while (generator.advance(7)) {
      }
      for (uint32_t slot = 0; slot < 2; ++slot) {
        EXPECT_THAT(generator.sampled(slot),
                    ElementsAreArray(plain_beam_search(plain, prompts[slot], 4, 40, stop_ids)))
            << family << ", slot " << slot << ", " << stop_ids.size() << " stop ids";
      }
    }
  }
}

TEST(GeneratorBeams, EqualAPlainSearch) {
  for (const char* family : {"llama", "gemma3", "qwen3", "qwen3-moe", "gpt-oss"}) {
    check_beams(family, "cpu");
  }
}

// The texts of two slots, with beams and with sampling, and their log-probabilities.
struct Answers {
  std::vector<std::vector<int32_t>> texts;
  std::vector<std::vector<float>> logprobs;
  bool operator==(const Answers&) const = default;
};
Answers answers(const std::string& family, Device& device, uint32_t beam_size,
                const Sampling& sampling, DType kv_dtype) {
  const auto provider = open_weights(folder_of(family));
  GeneratorOptions options = exact_options();
  options.n_slots = 2;
  options.beam_size = beam_size;
  options.kv_types = kv_dtype;
  Generator generator(device, *provider, Compute::kF32, options);
  const std::vector<std::pair<int32_t, float>> bias = {{3, 0.5f}};
  generator.set_stop_ids(std::vector<int32_t>{7, 8});
  std::vector<int32_t> prompt(40);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i * i % 60 + 1);
  Answers found;
  // The second round shares pages with the first, and ends one text early.
  for (int round = 0; round < 2; ++round) {
    generator.start(0, std::span(prompt).first(9), 20, sampling, {.bias = bias});
    generator.start(1, prompt, 12, sampling, {.bias = bias});
    generator.advance(5);
    if (round == 1) generator.stop(0);
    while (generator.advance(5)) {
    }
    for (uint32_t slot = 0; slot < 2; ++slot) {
      const auto text = generator.sampled(slot);
      const auto logprobs = generator.logprobs(slot);
      found.texts.emplace_back(text.begin(), text.end());
      found.logprobs.emplace_back(logprobs.begin(), logprobs.end());
    }
  }
  return found;
}

class GeneratorInAnyOrder : public testing::TestWithParam<std::string> {};

TEST_P(GeneratorInAnyOrder, AccessesOnlyDeclaredMemory) {
  Sampling all;
  all.temperature = 0.8f;
  all.top_k = 20;
  all.top_p = 0.9f;
  all.typical_p = 0.95f;
  all.min_p = 0.01f;
  all.repetition_penalty = 1.3f;
  all.frequency_penalty = 0.1f;
  all.no_repeat_ngram_size = 3;
  for (const std::string& device : plain_test_devices()) {
    const auto plain = open_test_device(device);
    for (const DType kv_dtype : {DType::kF16, DType::kF32}) {
      const auto checked = open_test_device("checked " + device, kv_dtype == DType::kF16 ? 1 : 2);
      EXPECT_EQ(answers(GetParam(), *checked, 4, {}, kv_dtype),
                answers(GetParam(), *plain, 4, {}, kv_dtype));
      EXPECT_EQ(answers(GetParam(), *checked, 1, all, kv_dtype),
                answers(GetParam(), *plain, 1, all, kv_dtype));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GeneratorInAnyOrder,
                         testing::Values("llama", "gemma3", "olmoe"));

// The log-probability of each answer token, from one pass over prompt and answer.
std::vector<float> plain_logprobs(Generator& model, std::vector<int32_t> prompt,
                                  std::span<const int32_t> answer) {
  const auto n_prompt = static_cast<uint32_t>(prompt.size());
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  std::vector<float> logprobs;
  model.evaluate(prompt, [&](uint32_t first, uint32_t n, const float* rows) {
    for (uint32_t r = 0; r < n; ++r, rows += model.n_vocab()) {
      if (first + r + 1 < n_prompt || first + r + 1 == prompt.size()) continue;
      double sum = 0;
      for (uint32_t id = 0; id < model.n_vocab(); ++id) sum += std::exp(double{rows[id]});
      const auto token = static_cast<size_t>(prompt[first + r + 1]);
      logprobs.push_back(static_cast<float>(rows[token] - std::log(sum)));
    }
  });
  return logprobs;
}

// Prompts that share their first tokens with the previous one, whose full pages are still cached.
TEST(GeneratorBeams, ReusePagesOfAnEarlierPrompt) {
  const auto provider = open_weights(folder_of("llama"));
  const auto device = open_device("cpu", {});
  Generator plain(*device, *provider, Compute::kF32, exact_options());
  GeneratorOptions options = exact_options();
  options.n_slots = 2;
  options.beam_size = 3;
  Generator generator(*device, *provider, Compute::kF32, options);
  std::vector<int32_t> text(50);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>((i * i + 3) % 60 + 1);
  std::vector<int32_t> other = text;
  other[37] ^= 1;
  const std::pair<std::vector<int32_t>, uint32_t> prompts[] = {
      {{text.begin(), text.begin() + 40}, 0},
      {text, 32},
      {{text.begin(), text.begin() + 20}, 19},
      {{text.begin(), text.begin() + 45}, 0},
      {other, 32}};
  for (const auto& [prompt, n_reused] : prompts) {
    generator.start(1, prompt, 12, {});
    EXPECT_EQ(generator.n_reused(1), n_reused) << prompt.size();
    while (generator.advance(5)) {
    }
    EXPECT_THAT(generator.sampled(1), ElementsAreArray(plain_beam_search(plain, prompt, 3, 12, {})))
        << prompt.size();
    EXPECT_THAT(generator.logprobs(1),
                Pointwise(FloatNear(1e-3f), plain_logprobs(plain, prompt, generator.sampled(1))));
  }
  const std::vector<std::byte> saved = generator.save(1);
  generator.forget(0);
  generator.restore(0, saved);
  generator.start(0, text, 12, {});
  EXPECT_EQ(generator.n_reused(0), 32u);
  while (generator.advance(5)) {
  }
  EXPECT_THAT(generator.sampled(0), ElementsAreArray(plain_beam_search(plain, text, 3, 12, {})));
}

#ifdef VESPER_HAS_VULKAN
TEST(GeneratorBeams, AreCleanUnderTheValidationLayers) {
  const auto plain = open_device("vulkan"), validated = open_test_device("validated vulkan");
  EXPECT_EQ(answers("llama", *validated, 4, {}, DType::kF16),
            answers("llama", *plain, 4, {}, DType::kF16));
}

TEST(GeneratorBeams, EqualAPlainSearchOnVulkan) { check_beams("llama", "vulkan"); }
#endif

TEST(Generator, StopsAtStopIdsAndLimits) {
  const auto provider = open_weights(folder_of("qwen3"));
  const ReferenceRows reference = read_reference_rows(folder_of("qwen3"));
  const auto device = open_device("cpu", {});
  Generator generator(*device, *provider, Compute::kF32, exact_options());
  const std::span<const int32_t> prompt = std::span(reference.ids).first(kPrompt);
  // Stop at a token that occurs here first; advance(32) must not continue after it.
  const auto at = std::find_if(
      reference.ids.begin() + kPrompt + 2, reference.ids.end(),
      [&](const int32_t& id) { return std::find(reference.ids.data() + kPrompt, &id, id) == &id; });
  ASSERT_NE(at, reference.ids.end());
  generator.set_stop_ids(std::vector<int32_t>{*at});
  generator.start(0, prompt, 32, {});
  EXPECT_FALSE(generator.advance(32));
  EXPECT_THAT(generator.sampled(0),
              ElementsAreArray(std::vector<int32_t>(reference.ids.begin() + kPrompt, at + 1)));
  generator.set_stop_ids({});
  generator.start(0, prompt, 7, {});
  EXPECT_FALSE(generator.advance(32));
  EXPECT_EQ(generator.sampled(0).size(), 7u);
  generator.start(0, prompt, 1000, {});  // n_ctx is 64
  EXPECT_FALSE(generator.advance(100));
  EXPECT_EQ(generator.sampled(0).size(), 64u - kPrompt);
  EXPECT_THROW(generator.start(0, std::vector<int32_t>(64, 1), 1, {}), std::exception);
  EXPECT_THROW(generator.start(0, std::vector<int32_t>{64}, 1, {}), std::exception);
  EXPECT_THROW(generator.start(0, {}, 1, {}), std::exception);
}

TEST(Generator, ContinuesFromSavedState) {
  const auto provider = open_weights(folder_of("gemma3"));
  const ReferenceRows reference = read_reference_rows(folder_of("gemma3"));
  const std::span<const int32_t> ids(reference.ids);
  const auto device = open_device("cpu", {});
  Generator first(*device, *provider, Compute::kF32, exact_options());
  first.start(0, ids.first(40), 1, {});
  first.advance(1);
  const std::vector<std::byte> saved = first.save(0);
  Generator second(*device, *provider, Compute::kF32, exact_options());
  second.restore(0, saved);
  second.start(0, ids.first(40), 4, {});
  EXPECT_EQ(second.n_reused(0), 39u);
  second.advance(4);
  EXPECT_THAT(second.sampled(0), ElementsAreArray(ids.subspan(40)));
  std::vector<std::byte> cut(saved.begin(), saved.end() - 1);
  EXPECT_THROW(second.restore(0, cut), std::exception);
  std::vector<std::byte> longer = saved;
  longer.push_back({});
  EXPECT_THROW(second.restore(0, longer), std::exception);
  const auto other = open_weights(folder_of("gemma2"));
  Generator third(*device, *other, Compute::kF32, exact_options());
  EXPECT_THROW(third.restore(0, saved), std::exception);
}

TEST(Generator, RefusesStateOfOtherWeightsOfTheSameSizes) {
  const auto device = open_device("cpu", {});
  const auto provider = open_weights(folder_of("qwen3"));
  Generator first(*device, *provider, Compute::kF32, exact_options());
  first.start(0, std::vector<int32_t>(20, 1), 1, {});
  first.advance(1);
  const std::vector<std::byte> saved = first.save(0);
  // A copy of the model in which one norm weight differs.
  const TemporaryFolder folder;
  fs::copy(folder_of("qwen3"), folder.path(), fs::copy_options::recursive);
  std::string file = read_file(folder / "model.safetensors");
  const TensorView& norm = provider->require("decoder.norm.weight");
  const size_t at = file.find({static_cast<const char*>(norm.data), norm.bytes});
  ASSERT_NE(at, std::string::npos);
  file[at + 1] ^= 1;
  write_file(folder / "model.safetensors", file);
  const auto changed = open_weights(folder.path());
  Generator second(*device, *changed, Compute::kF32, exact_options());
  EXPECT_THROW(second.restore(0, saved), Error);
}

TEST(Generator, DropsStateThatExceedsItsContext) {
  const auto device = open_device("cpu", {});
  const auto provider = open_weights(folder_of("llama"));
  Generator first(*device, *provider, Compute::kF32, exact_options());
  const std::vector<int32_t> text(40, 1);
  first.start(0, text, 1, {});
  first.advance(1);
  GeneratorOptions options = exact_options();
  options.n_ctx = 32;
  Generator second(*device, *provider, Compute::kF32, options);
  second.restore(0, first.save(0));
  second.start(0, std::span(text).first(20), 4, {});
  EXPECT_EQ(second.n_reused(0), 0u);
}

// Layers with a window of 9 keep 9 positions and the rows of a pass; one of three keeps all.
TEST(Generator, RecyclesThePagesOfSlidingWindows) {
  const auto provider = open_weights(folder_of("gemma3"));
  const auto device = open_device("cpu", {});
  GeneratorOptions options = exact_options();
  options.n_ctx = 1200;
  Generator recycling(*device, *provider, Compute::kF32, options);
  options.recycles_pages = false;
  Generator keeping(*device, *provider, Compute::kF32, options);
  std::vector<int32_t> text(1000);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>((i * i + i / 7) % 64);

  const auto logits_of = [&](Generator& generator) {
    std::vector<float> all;
    generator.evaluate(text, [&](uint32_t, uint32_t n, const float* logits) {
      all.insert(all.end(), logits, logits + size_t{n} * generator.n_vocab());
    });
    return all;
  };
  EXPECT_EQ(logits_of(recycling), logits_of(keeping));
  const std::vector<std::byte> saved = recycling.save(0);
  EXPECT_LT(saved.size(), keeping.save(0).size() * 3 / 4);

  const auto both_answer = [&](std::span<const int32_t> prompt) {
    std::vector<std::vector<int32_t>> answers;
    for (Generator* generator : {&recycling, &keeping}) {
      generator->start(0, prompt, 40, {});
      while (generator->advance(16)) {
      }
      const auto sampled = generator->sampled(0);
      answers.emplace_back(sampled.begin(), sampled.end());
    }
    EXPECT_EQ(answers[0].size(), 40u);
    EXPECT_EQ(answers[0], answers[1]);
  };
  both_answer(text);
  EXPECT_EQ(recycling.n_reused(0), 999u);
  // The window of a position near the end is still cached; that of a position far before it is not.
  text[900] ^= 1;
  both_answer(text);
  EXPECT_EQ(recycling.n_reused(0), 900u);
  text[300] ^= 1;
  both_answer(text);
  EXPECT_EQ(recycling.n_reused(0), 0u);
  EXPECT_EQ(keeping.n_reused(0), 300u);
  both_answer(std::span(text).first(200));
  both_answer(text);

  recycling.restore(0, saved);
  text[300] ^= 1;
  text[900] ^= 1;
  both_answer(text);
  EXPECT_EQ(recycling.n_reused(0), 999u);
}

}  // namespace
}  // namespace vesper::language_models_test

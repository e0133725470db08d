// Passes over drafted tokens: whatever is drafted, the tokens are those of steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "error/error.h"
#include "llm/generation/decoding_loop.h"
#include "llm/generation/generator.h"
#include "llm/weights/weight_provider.h"
#include "tests/llm/models/tiny_model.h"
#include "tests/llm/test_devices.h"

namespace vesper::drafted_pass_test {
namespace {

using Tokens = std::vector<int32_t>;
constexpr uint32_t kContext = 64, kRows = 12;

// A loop over slots of a tiny model, and what they sampled.
struct TestLoop {
  TestLoop(Device& device, const WeightProvider& weights, uint32_t n_slots,
           std::span<const int32_t> stop_ids = {})
      : model(device, weights, Compute::kF32,
              {.n_ctx = kContext,
               .n_sequences = n_slots,
               .max_rows = DecodingLoop::most_pass_rows(device, kContext),
               .max_logit_rows = kRows,
               .kv_types = DType::kF32}),
        loop(device, model, {.most_drafted_rows = kRows}) {
    loop.set_stop_ids(stop_ids);
    loop.begin({.n_slots = n_slots, .has_filters = true, .has_penalties = true});
  }

  void start(uint32_t slot, const Tokens& prompt, const Sampling& sampling, uint32_t most) {
    SequenceState state = sampling.state();
    state.first_sampled = static_cast<uint32_t>(prompt.size());
    state.max_sampled = most;
    loop.prefill(slot, prompt, 0, state.first_sampled - 1);
    loop.start(slot, prompt, {&state, 1});
  }

  Tokens sampled(uint32_t slot) {
    loop.read_sampled(slot);
    const auto tokens = loop.sampled(slot);
    return {tokens.begin(), tokens.end()};
  }
  std::vector<float> logprobs(uint32_t slot) {
    const auto all = loop.logprobs(slot);
    return {all.begin(), all.end()};
  }

  DecoderModel model;
  DecodingLoop loop;
};

std::vector<Sampling> samplings() {
  Sampling noisy, filtered, penalized;
  noisy.temperature = 1.5f;
  noisy.seed = 3;
  filtered.temperature = 2;
  filtered.top_k = 20;
  filtered.top_p = 0.9f;
  filtered.seed = 5;
  penalized.temperature = 1;
  penalized.repetition_penalty = 1.5f;
  penalized.frequency_penalty = 0.4f;
  penalized.presence_penalty = 0.3f;
  penalized.no_repeat_ngram_size = 2;
  penalized.seed = 8;
  return {{}, noisy, filtered, penalized};
}

// Runs drafts of the tokens that follow, of which every `wrong_every`-th is another.
void check_drafts(const std::string& device_name, const char* family) {
  const auto weights = tiny_model(family);
  const auto device = open_test_device(device_name);
  TestLoop test(*device, *weights, 2);
  const Tokens prompts[] = {{5, 9, 2, 5, 9, 1}, {7, 7, 3}};
  for (const Sampling& sampling : samplings()) {
    Tokens wanted[2];
    std::vector<float> logprobs[2];
    for (uint32_t slot = 0; slot < 2; ++slot) test.start(slot, prompts[slot], sampling, 40);
    while (!test.loop.advance(7).empty() || test.loop.any_is_running()) {
    }
    for (uint32_t slot = 0; slot < 2; ++slot) {
      wanted[slot] = test.sampled(slot);
      logprobs[slot] = test.logprobs(slot);
      ASSERT_EQ(wanted[slot].size(), 40u);
    }
    for (const size_t wrong_every : {1, 3, 100}) {
      SCOPED_TRACE("temperature " + std::to_string(sampling.temperature) + ", wrong every " +
                   std::to_string(wrong_every));
      for (uint32_t slot = 0; slot < 2; ++slot) test.start(slot, prompts[slot], sampling, 40);
      uint32_t n_passes = 0;
      for (; test.loop.any_is_running(); ++n_passes) {
        Tokens texts[2];
        std::vector<Draft> drafts;
        for (uint32_t slot = 0; slot < 2; ++slot) {
          if (!test.loop.is_running(slot)) continue;
          const Tokens sampled = test.sampled(slot);
          texts[slot].push_back(sampled.empty() ? prompts[slot].back() : sampled.back());
          // Passes of different sizes, one of them a step.
          const size_t n_drafted = (n_passes + slot) % 6;
          for (size_t i = 0; i < n_drafted && sampled.size() + i + 1 < 40; ++i) {
            const size_t at = sampled.size() + i;
            const bool is_wrong = at % wrong_every == wrong_every - 1;
            texts[slot].push_back(is_wrong ? (wanted[slot][at] + 1) % 64 : wanted[slot][at]);
          }
          drafts.push_back({slot, texts[slot]});
        }
        if (n_passes % 5 == 4) {
          test.loop.advance(1);
        } else {
          test.loop.advance_with_drafts(drafts);
        }
      }
      for (uint32_t slot = 0; slot < 2; ++slot) {
        EXPECT_EQ(test.sampled(slot), wanted[slot]);
        for (size_t i = 0; i < 40; ++i) {
          if (device_name.ends_with("cpu")) {
            ASSERT_EQ(test.logprobs(slot)[i], logprobs[slot][i]) << i;
          } else {
            ASSERT_NEAR(test.logprobs(slot)[i], logprobs[slot][i], 1e-4) << i;
          }
        }
      }
      // Wrong drafts give one token per pass, right ones up to six.
      EXPECT_LE(n_passes, wrong_every == 100 ? 20u : 40u);
      EXPECT_GE(n_passes, wrong_every == 1 ? 40u : 40u / 6);
    }
  }
}

TEST(DraftedPass, SamplesTheTokensOfStepsOnTheCpu) {
  for (const char* family : {"llama", "gemma3", "qwen3"}) check_drafts("cpu", family);
}

TEST(DraftedPass, AccessesOnlyDeclaredMemoryInAnyOrder) { check_drafts("checked cpu", "qwen3"); }

#ifdef VESPER_HAS_VULKAN
TEST(DraftedPass, SamplesTheTokensOfStepsOnVulkan) {
  for (const char* family : {"llama", "gemma3"}) check_drafts("vulkan", family);
}

TEST(DraftedPass, AccessesOnlyDeclaredMemoryOnVulkan) { check_drafts("checked vulkan", "qwen3"); }

TEST(DraftedPass, IsCleanUnderTheValidationLayers) { check_drafts("validated vulkan", "llama"); }
#endif

TEST(DraftedPass, EndsAtAStopTokenAmongTheDrafted) {
  const auto weights = tiny_model("llama");
  for (const std::string& name : plain_test_devices()) {
    const auto device = open_test_device(name);
    Sampling noisy;
    noisy.temperature = 1.5f;
    noisy.seed = 3;
    Tokens wanted;
    {
      TestLoop free(*device, *weights, 1);
      free.start(0, {5, 9, 2}, noisy, 12);
      while (free.loop.any_is_running()) free.loop.advance(1);
      wanted = free.sampled(0);
    }
    size_t at = 4;  // a token that is new there ends the text
    while (std::find(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(at),
                     wanted[at]) != wanted.begin() + static_cast<std::ptrdiff_t>(at)) {
      ++at;
    }
    ASSERT_LT(at, 10u);
    TestLoop test(*device, *weights, 1, {{wanted[at]}});
    test.start(0, {5, 9, 2}, noisy, 12);
    Tokens text = {2};
    text.insert(text.end(), wanted.begin(), wanted.begin() + 11);
    const Draft draft{0, text};
    EXPECT_THAT(test.loop.advance_with_drafts({&draft, 1}), testing::ElementsAre(0u));
    EXPECT_FALSE(test.loop.any_is_running());
    EXPECT_EQ(test.sampled(0), Tokens(wanted.begin(), wanted.begin() + at + 1));
  }
}

TEST(DraftedPass, NamesTooManyTokens) {
  const auto weights = tiny_model("llama");
  const auto device = open_test_device("cpu");
  TestLoop test(*device, *weights, 1);
  test.start(0, {5, 9, 2}, {}, 40);
  const Tokens text(kRows + 1, 1);
  const Draft draft{0, text};
  try {
    test.loop.advance_with_drafts({&draft, 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "decoding loop: expected drafts of up to 12 tokens for slots of one sequence, "
                 "found 13 tokens for slots of 1");
  }
}

// The tokens that a filter keeps and their probabilities, of the logits of a step.
std::vector<double> kept_probabilities(TestLoop& test, Device& device, const Tokens& text,
                                       uint32_t top_k) {
  test.start(0, text, {}, 1);
  test.loop.advance(1);
  std::vector<float> logits(test.model.n_vocab());
  device.read(test.loop.logits().part(0, logits.size() * sizeof(float)), logits.data());
  std::vector<float> sorted = logits;
  std::ranges::sort(sorted, std::greater<>());
  std::vector<double> kept;
  for (const float logit : logits) {
    kept.push_back(logit >= sorted[top_k - 1] ? std::exp(double{logit}) : 0);
  }
  const double sum = std::accumulate(kept.begin(), kept.end(), 0.0);
  for (double& each : kept) each /= sum;
  return kept;
}

double chi_squared(const std::vector<double>& counts, const std::vector<double>& probabilities) {
  const double n = std::accumulate(counts.begin(), counts.end(), 0.0);
  double sum = 0;
  for (size_t id = 0; id < counts.size(); ++id) {
    const double wanted = n * probabilities[id];
    if (wanted == 0) {
      EXPECT_EQ(counts[id], 0) << id;
    } else {
      sum += (counts[id] - wanted) * (counts[id] - wanted) / wanted;
    }
  }
  return sum;
}

// The tokens before and after a drafted one, over many seeds, against the probabilities of steps.
TEST(DraftedPass, KeepsTheDistributionAtTemperature1) {
  const auto weights = tiny_model("llama");
  const auto device = open_test_device("cpu");
  TestLoop test(*device, *weights, 1);
  Sampling sampling;
  sampling.temperature = 1;
  sampling.top_k = 8;
  Tokens prompt = {5, 9, 2};
  const std::vector<double> first = kept_probabilities(test, *device, prompt, sampling.top_k);
  const auto likeliest = std::ranges::max_element(first) - first.begin();
  const Tokens text = {prompt.back(), static_cast<int32_t>(likeliest)};
  Tokens longer = prompt;
  longer.push_back(text.back());
  const std::vector<double> second = kept_probabilities(test, *device, longer, sampling.top_k);

  std::vector<double> n_first(first.size()), n_second(first.size());
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    sampling.seed = seed;
    test.start(0, prompt, sampling, 2);
    const Draft draft{0, text};
    test.loop.advance_with_drafts({&draft, 1});
    const Tokens sampled = test.sampled(0);
    ++n_first[static_cast<size_t>(sampled[0])];
    ASSERT_EQ(sampled.size(), sampled[0] == text.back() ? 2u : 1u);
    if (sampled.size() == 2) ++n_second[static_cast<size_t>(sampled[1])];
  }
  // 7 degrees of freedom: exceeded with a probability of 0.001.
  EXPECT_GT(std::accumulate(n_second.begin(), n_second.end(), 0.0), 400);
  EXPECT_LT(chi_squared(n_first, first), 24.3);
  EXPECT_LT(chi_squared(n_second, second), 24.3);
}

}  // namespace
}  // namespace vesper::drafted_pass_test

// Slots of a generator: which of them a step computes, and caches that change places.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "llm/generation/generator.h"
#include "llm/inspect/observed_device.h"
#include "shaders/kernel_params.h"
#include "tests/llm/models/tiny_model.h"
#include "tests/llm/test_devices.h"

namespace vesper::generator_slots_test {
namespace {

using Tokens = std::vector<int32_t>;

GeneratorOptions options_for(uint32_t n_slots, uint32_t n_ctx = 64) {
  GeneratorOptions options;
  options.n_ctx = n_ctx;
  options.n_slots = n_slots;
  options.kv_types = DType::kF32;
  return options;
}

Tokens text_of(Generator& generator, uint32_t slot, const Tokens& prompt, uint32_t n) {
  generator.start(slot, prompt, n, {});
  while (generator.is_running(slot)) generator.advance(3);
  const auto sampled = generator.sampled(slot);
  return {sampled.begin(), sampled.end()};
}

// The sequences of the programs that a generator on this device has run since the last call.
class StepSizes {
 public:
  explicit StepSizes(ObservedDevice& device) : device_(device) {
    device.set_clock(Clock::kPerStage);
  }

  std::vector<uint32_t> since() {
    std::vector<uint32_t> sizes;
    n_runs_.resize(device_.programs().size());
    for (ProgramId id = 0; id < n_runs_.size(); ++id) {
      const uint64_t n = device_.replay_times(id).n_runs;
      if (std::exchange(n_runs_[id], n) == n) continue;
      for (const Command& command : device_.programs()[id].commands()) {
        if (command.kernel == Kernel::kSampleToken) {
          sizes.push_back(command.params_as<SamplingParams>().n_sequences);
        }
      }
    }
    return sizes;
  }

 private:
  ObservedDevice& device_;
  std::vector<uint64_t> n_runs_;
};

TEST(GeneratorSlots, StepsEndWithTheLastOneThatRuns) {
  ObservedDevice device(open_test_device("cpu"), ObservedDevice::Mode::kRun);
  const auto weights = tiny_model("llama");
  Generator generator(device, *weights, Compute::kF32, options_for(12));
  StepSizes steps(device);
  const auto sizes = [&] {
    generator.advance(1);
    return steps.since();
  };
  using Sizes = std::vector<uint32_t>;
  generator.start(0, Tokens{5, 6, 7}, 40, {});
  steps.since();
  EXPECT_EQ(sizes(), Sizes{1});
  generator.start(2, Tokens{5, 6, 8}, 40, {});
  steps.since();
  EXPECT_EQ(sizes(), Sizes{4});
  generator.start(8, Tokens{5, 6, 9}, 2, {});
  steps.since();
  EXPECT_EQ(sizes(), Sizes{12});
  EXPECT_EQ(sizes(), Sizes{12});
  EXPECT_EQ(sizes(), Sizes{4});
  generator.stop(2);
  EXPECT_EQ(sizes(), Sizes{1});
}

TEST(GeneratorSlots, ThatAreLeftOutChangeNoBitUnlessTheyMay) {
  ObservedDevice device(open_test_device("cpu"), ObservedDevice::Mode::kRun);
  const auto weights = tiny_model("llama");
  for (const bool keeps_bits : {true, false}) {
    GeneratorOptions options = options_for(32);
    options.keeps_bits = keeps_bits;
    Generator generator(device, *weights, Compute::kF32, options);
    StepSizes steps(device);
    generator.start(0, Tokens{5, 6, 7}, 40, {});
    steps.since();
    generator.advance(1);
    // Products of up to 16 rows have another kernel.
    EXPECT_EQ(steps.since(), std::vector<uint32_t>{keeps_bits ? 17u : 1u});
  }
}

// A sliding window of gemma3 has a page table of its own.
TEST(GeneratorSlots, TextsGoOnAfterCachesWereSwapped) {
  const Tokens first = {5, 9, 2, 5, 9, 1}, other = {7, 7, 3, 8};
  for (const std::string& name : plain_test_devices()) {
    for (const char* family : {"llama", "gemma3"}) {
      SCOPED_TRACE(std::string(family) + " on " + name);
      const auto device = open_test_device(name);
      const auto weights = tiny_model(family);
      // Long enough that the layers with a sliding window keep fewer positions.
      GeneratorOptions options = options_for(3, 1200);
      options.keeps_bits = false;
      Generator generator(*device, *weights, Compute::kF32, options);
      std::vector<Tokens> texts = {first, other};
      for (uint32_t i = 0; i < texts.size(); ++i) {
        const Tokens sampled = text_of(generator, 2 * i, texts[i], 90);
        texts[i].insert(texts[i].end(), sampled.begin(), sampled.end());
      }
      generator.swap_caches(0, 2);
      std::swap(texts[0], texts[1]);
      for (uint32_t i = 0; i < texts.size(); ++i) {
        Generator fresh(*device, *weights, Compute::kF32, options);
        const uint32_t slot = 2 * i;
        EXPECT_EQ(generator.n_reusable(slot, texts[i]), texts[i].size() - 1);
        EXPECT_EQ(text_of(generator, slot, texts[i], 20), text_of(fresh, 1, texts[i], 20));
        EXPECT_EQ(generator.n_reused(slot), texts[i].size() - 1);
      }
    }
  }
}

}  // namespace
}  // namespace vesper::generator_slots_test

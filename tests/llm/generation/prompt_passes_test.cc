// Passes over prompts: which part of the last layer they have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "llm/generation/generator.h"
#include "llm/inspect/observed_device.h"
#include "tests/llm/models/tiny_model.h"
#include "tests/llm/test_devices.h"

namespace vesper::prompt_passes_test {
namespace {

using ::testing::ElementsAre;

// A generator of a tiny model on an observed device, and the programs that it has recorded.
struct Observed {
  Observed() {
    GeneratorOptions options;
    options.n_ctx = 64;
    options.kv_types = DType::kF32;
    generator = std::make_unique<Generator>(device, *weights, Compute::kF32, options);
  }

  // The labels of the last layer's commands in a program.
  std::vector<std::string> last_layer(const DispatchTable& program) const {
    const std::string prefix =
        "decoder." + std::to_string(weights->config().decoder().n_layers - 1) + ".";
    std::vector<std::string> labels;
    for (const std::string& label : program.labels()) {
      if (label.starts_with(prefix)) labels.push_back(label.substr(prefix.size()));
    }
    return labels;
  }

  std::unique_ptr<WeightProvider> weights = tiny_model("llama");
  ObservedDevice device{open_test_device("cpu"), ObservedDevice::Mode::kRun};
  std::unique_ptr<Generator> generator;
};

TEST(PromptPasses, EndWithTheKeysAndValuesOfTheLastLayer) {
  const Observed observed;
  ASSERT_FALSE(observed.device.programs().empty());
  const DispatchTable& pass = observed.device.programs().front();
  EXPECT_THAT(observed.last_layer(pass), ElementsAre("attn_norm", "attn.qkv", "attn.rope"));
}

TEST(PromptPasses, AreCompletedByOneProgramForTheLogitsOfAPrompt) {
  Observed observed;
  const std::vector<DispatchTable>& programs = observed.device.programs();
  const auto evaluate = [&] {
    observed.generator->evaluate(std::vector<int32_t>{5, 6, 7},
                                 [](uint32_t, uint32_t, const float*) {});
  };
  evaluate();
  std::vector<std::vector<std::string>> completions;
  for (const DispatchTable& program : programs) {
    const std::vector<std::string> labels = observed.last_layer(program);
    if (!labels.empty() && labels.front() == "attn") completions.push_back(labels);
  }
  EXPECT_THAT(completions, ElementsAre(ElementsAre("attn", "attn.out", "ffn_norm", "ffn.gate_up",
                                                   "ffn.activation", "ffn.down")));
  const size_t n_programs = programs.size();
  evaluate();
  EXPECT_EQ(programs.size(), n_programs);
}

}  // namespace
}  // namespace vesper::prompt_passes_test

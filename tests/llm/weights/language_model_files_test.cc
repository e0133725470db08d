// Valid and invalid config.json files of language models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "error/error.h"
#include "llm/devices/open_device.h"
#include "llm/generation/generator.h"
#include "llm/weights/model_families.h"
#include "llm/weights/weight_provider.h"

namespace vesper::language_model_files_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

// A copy of a tiny model with a changed config.json.
class ChangedModel {
 public:
  explicit ChangedModel(const std::string& name) {
    path_ = fs::temp_directory_path() / ("vesper-" + std::to_string(std::random_device{}()));
    fs::copy(fs::path(VESPER_TEST_DATA) / "language_models" / name, path_);
    std::ifstream file(path_ / "config.json");
    config = json::parse(file);
  }
  ~ChangedModel() { fs::remove_all(path_); }

  std::unique_ptr<WeightProvider> open() const {
    std::ofstream(path_ / "config.json") << config.dump();
    auto provider = open_weights(path_);
    provider->config(ModelType::kLanguageModel);  // throws otherwise
    return provider;
  }
  std::string error() const {
    try {
      open();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  json config;

 private:
  fs::path path_;
};

struct WrongFact {
  const char* model;
  const char* key;
  json value;
  const char* message;
};

TEST(LanguageModelFiles, ReportInvalidConfigurationValues) {
  const WrongFact facts[] = {
      {"llama", "model_type", "llamma", "family llamma"},
      {"llama", "vocab_size", 63, "embed_tokens.weight"},
      {"llama", "vocab_size", "many", "vocab_size"},
      {"llama", "hidden_size", 33, "[64, 33]"},
      {"llama", "num_hidden_layers", 4, "decoder.layers.3"},
      {"llama", "num_hidden_layers", 2000000, "number of layers between 1 and 1024"},
      {"llama", "num_attention_heads", 3, "key-value heads that divide"},
      {"llama", "num_key_value_heads", 8, "key-value heads between 1 and 4"},
      {"llama", "head_dim", 2048, "head width"},
      {"llama", "max_position_embeddings", 0, "max_position_embeddings"},
      {"llama", "rms_norm_eps", -1, "rms_norm_eps"},
      {"llama", "rope_parameters", {{"rope_type", "dynamic"}, {"factor", 2}}, "type dynamic"},
      {"llama", "rope_scaling", {{"type", 7}}, "expected type to be a text"},
      {"llama", "partial_rotary_factor", 4, "rotary pairs"},
      {"gemma2", "layer_types", {"full_attention"}, "window of layers for 3, found 1"},
      {"gemma2", "layer_types", {"full_attention", "half_attention", "x"}, "half_attention"},
      {"phi3-long",
       "rope_parameters",
       {{"rope_type", "longrope"}, {"short_factor", {1, 2}}, {"long_factor", {1, 2}}},
       "rotary freq_factors for 4, found 2"},
      {"smollm3", "no_rope_layers", {1, 1}, "rope of layers for 4, found 2"},
      {"granite", "residual_multiplier", 0, "residual_multiplier"},
      {"granite", "logits_scaling", "eight", "logits_scaling"},
      {"olmoe", "clip_qkv", 8, "expected clip_qkv null, found 8"},
      {"olmo2", "head_dim", 4, "q_proj.weight of shape [16, 32]"},
      {"granite-moe", "num_local_experts", 7, "[7, 32], found [6, 32]"},
      {"granite-moe", "num_local_experts", 5, "[5, 32], found [6, 32]"},
      {"granite-moe", "intermediate_size", 32, "[32, 32], found [16, 32]"},
      {"qwen3-moe", "num_local_experts", 7, "[6, 32]"},
      {"qwen3-moe", "num_local_experts", 5, "[6, 32]"},
      {"qwen3-moe", "num_local_experts", 4000000000, "number of experts between 1 and 512"},
      {"qwen3-moe", "num_experts_per_tok", 0, "num_experts_per_tok"},
      {"qwen3-moe", "num_experts_per_tok", 7, "number of experts of a token between 1 and 6"},
      {"qwen3-moe", "moe_intermediate_size", 32, "[16, 32]"},
      {"qwen3-moe", "moe_intermediate_size", 8, "multiples of 16"},
      {"qwen3-moe", "shared_expert_intermediate_size", 40, "shared.router.weight"},
      {"gpt-oss", "swiglu_limit", 5, "expected swiglu_limit 7.0, found 5"},
      {"gpt-oss", "swiglu_alpha", 1, "expected swiglu_alpha 1.702, found 1"},
      {"gpt-oss", "num_local_experts", 7, "[7, 32], found [6, 32]"},
      {"gpt-oss", "num_local_experts", 0, "num_local_experts"},
      {"gpt-oss", "intermediate_size", 32, "[32, 32], found [16, 32]"},
      {"gpt-oss", "hidden_size", 48, "[64, 48], found [64, 32]"},
      {"gpt-oss-mxfp4", "intermediate_size", 16, "[16, 64], found [32, 64]"},
      {"gpt-oss-mxfp4", "num_attention_heads", 2, "[32, 64], found [64, 64]"},
      {"qwen2-moe", "shared_expert_intermediate_size", 48, "[48, 32], found [40, 32]"},
      {"qwen2-moe", "shared_expert_intermediate_size", 2000000, "width of the shared expert"},
  };
  for (const WrongFact& fact : facts) {
    ChangedModel model(fact.model);
    // Older files have the values of rope_parameters as separate keys.
    if (std::string(fact.key) == "rope_scaling" || std::string(fact.key).starts_with("partial")) {
      model.config.erase("rope_parameters");
    }
    model.config[fact.key] = fact.value;
    EXPECT_THAT(model.error(), HasSubstr(fact.message)) << fact.key;
  }
}

TEST(LanguageModelFiles, OfEmbeddingModelsGenerateNoText) {
  ChangedModel model("gemma3");
  model.config["use_bidirectional_attention"] = true;
  const auto weights = model.open();
  const auto device = open_device("cpu", {});
  try {
    Generator generator(*device, *weights, Compute::kF32, {});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    EXPECT_THAT(error.what(), HasSubstr("expected a model that generates text"));
  }
}

TEST(LanguageModelFiles, AcceptOlderNames) {
  ChangedModel model("llama3");
  const StackConfig newer = model.open()->config().decoder();
  json scaling = model.config["rope_parameters"];
  model.config["rope_theta"] = scaling["rope_theta"];
  scaling["type"] = scaling["rope_type"];
  scaling.erase("rope_type");
  scaling.erase("rope_theta");
  model.config["rope_scaling"] = scaling;
  model.config.erase("rope_parameters");
  const StackConfig older = model.open()->config().decoder();
  EXPECT_EQ(rope_angles(older.ropes[0], 64), rope_angles(newer.ropes[0], 64));
  RopeSettings plain;
  plain.theta = older.ropes[0].theta;
  plain.n_pairs = older.ropes[0].n_pairs;
  EXPECT_NE(rope_angles(plain, 64), rope_angles(newer.ropes[0], 64));
}

TEST(LanguageModelFiles, HaveAWindowAndRopeBasePerLayer) {
  const ChangedModel model("gemma3");
  const auto provider = model.open();
  const StackConfig& stated = provider->config().decoder();
  ASSERT_EQ(stated.layers.size(), 3u);
  EXPECT_EQ(stated.layers[0].sliding_window, 9u);
  EXPECT_EQ(stated.layers[1].sliding_window, 0u);
  EXPECT_EQ(stated.layers[1].rope, 0u);
  EXPECT_EQ(stated.layers[2].rope, 1u);
  EXPECT_EQ(stated.ropes[0].theta, 1000000.0f);
  EXPECT_EQ(stated.ropes[1].theta, 10000.0f);
  // As in GGUF, which does not list the layers.
  const auto by_family = [&](const char* family) {
    ModelConfig config = provider->config();
    StackConfig& stack = config.decoder();
    stack.n_layers = 12;
    stack.ropes.resize(1);
    LayerFacts facts;
    facts.sliding_window = 9;
    set_layers(*find_gguf_family(family), facts, stack, config);
    return stack;
  };
  const StackConfig usual = by_family("gemma3");
  EXPECT_EQ(usual.ropes[1].theta, 10000.0f);
  for (uint32_t i = 0; i < 12; ++i) {
    EXPECT_EQ(usual.layers[i].sliding_window, i % 6 == 5 ? 0u : 9u) << i;
    EXPECT_EQ(usual.layers[i].rope, i % 6 == 5 ? 0u : 1u) << i;
  }
  const StackConfig some_without = by_family("smollm3");
  EXPECT_TRUE(some_without.layers[2].rope.has_value());
  EXPECT_FALSE(some_without.layers[3].rope.has_value());
}

TEST(LanguageModelFiles, SelectRopeFactorsByContext) {
  const ChangedModel model("phi3-long");
  const RopeSettings rope = model.open()->config().decoder().ropes[0];
  ASSERT_FALSE(rope.freq_factors.empty());
  ASSERT_NE(rope.freq_factors, rope.long_freq_factors);
  RopeSettings only_short = rope, only_long = rope;
  only_short.long_freq_factors.clear();
  only_long.freq_factors = rope.long_freq_factors;
  EXPECT_EQ(rope_angles(rope, 8), rope_angles(only_short, 8));
  EXPECT_EQ(rope_angles(rope, 9), rope_angles(only_long, 9));
  EXPECT_NE(rope_angles(only_short, 9), rope_angles(only_long, 9));
}

}  // namespace
}  // namespace vesper::language_model_files_test

// LoRA adapters against Hugging Face's peft: the logits of tiny models with adapters, made by
// tests/reference/make_adapters.py.
#include "llm/conversion/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "error/error.h"
#include "llm/conversion/changed_weights.h"
#include "llm/devices/open_device.h"
#include "llm/generation/generator.h"
#include "session/conversion.h"
#include "tests/child_process.h"
#include "tests/llm/kernels/reference_rows.h"
#include "tests/llm/models/all_logits.h"
#include "tests/llm/weights/gguf_bytes.h"

namespace vesper::adapters_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path folder_of(const std::string& adapter) { return fs::path(ADAPTERS) / adapter; }
fs::path model_of(const std::string& name) { return fs::path(LANGUAGE_MODELS) / name; }

// The greatest difference of the logits of an adapted model from the reference's.
double error_of(const fs::path& model, const fs::path& adapter, const std::string& reference_name,
                float scale = 1) {
  const ReferenceRows reference = read_reference_rows(folder_of(reference_name));
  const auto weights = change_weights(open_weights(model), {.adapters = {{adapter, scale}}}, 2);
  return largest_difference(all_logits(*weights, reference.ids), reference.values);
}

struct Case {
  const char *adapter, *model;
};

class Adapters : public testing::TestWithParam<Case> {};

TEST_P(Adapters, GiveTheLogitsOfPeft) {
  const auto& [adapter, model] = GetParam();
  EXPECT_LT(error_of(model_of(model), folder_of(adapter), adapter), 1e-4);
  EXPECT_LT(error_of(model_of(model), folder_of(adapter) / "adapter_model.safetensors", adapter),
            1e-4);
  EXPECT_GT(error_of(model_of(model), folder_of(adapter), adapter, 0.9f), 0.01)
      << "another scale is another model";
}

TEST_P(Adapters, FitModelsInGguf) {
  const auto& [adapter, model] = GetParam();
  const TemporaryFolder folder;
  convert_model({model_of(model), folder / "model.gguf", "f32", 2});
  EXPECT_LT(error_of(folder / "model.gguf", folder_of(adapter), adapter), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Families, Adapters,
                         testing::Values(Case{"llama", "llama"}, Case{"llama-patterns", "llama"},
                                         Case{"phi3", "phi3"}, Case{"qwen3", "qwen3"}),
                         [](const testing::TestParamInfo<Case>& tested) {
                           std::string name = tested.param.adapter;
                           std::erase(name, '-');
                           return name;
                         });

std::vector<uint8_t> bytes_of(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// The adapter "llama" as llama.cpp's converter writes it: names, and the order of rows of queries
// and keys.
GgufBytes llama_in_gguf() {
  GgufBytes gguf;
  gguf.string("general.type", "adapter")
      .string("general.architecture", "llama")
      .string("adapter.type", "lora")
      .scalar<float>("adapter.lora.alpha", 6, 8);
  Safetensors tensors;
  read_safetensors(std::make_shared<MappedFile>(folder_of("llama") / "adapter_model.safetensors"),
                   tensors);
  const std::vector<std::pair<std::string, std::string>> names = {
      {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"}, {"self_attn.o_proj", "attn_output"},
      {"mlp.gate_proj", "ffn_gate"},  {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  for (const TensorView& tensor : tensors.tensors) {
    const size_t at = tensor.name.find(".layers.") + 8;
    const bool is_a = tensor.name.find("lora_A") != std::string::npos;
    for (const auto& [from, to] : names) {
      if (tensor.name.find(from) == std::string::npos) continue;
      std::vector<float> values = read_f32(tensor);
      if (!is_a && (to == "attn_q" || to == "attn_k")) {
        const std::vector<float> plain = values;
        const size_t columns = tensor.shape[1];
        for (size_t row = 0; row < tensor.shape[0]; ++row) {  // heads of 8
          const size_t source = row / 8 * 8 + row % 2 * 4 + row % 8 / 2;
          std::copy_n(plain.begin() + static_cast<std::ptrdiff_t>(source * columns), columns,
                      values.begin() + static_cast<std::ptrdiff_t>(row * columns));
        }
      }
      gguf.tensor(
          "blk." + tensor.name.substr(at, 1) + "." + to + ".weight.lora_" + (is_a ? "a" : "b"),
          {tensor.shape[1], tensor.shape[0]}, 0, bytes_of(values));
    }
  }
  return gguf;
}

TEST(GgufAdapters, GiveTheLogitsOfPeft) {
  const TemporaryFolder folder;
  const std::vector<uint8_t> bytes = llama_in_gguf().bytes();
  write_file(folder / "adapter.gguf", std::string(bytes.begin(), bytes.end()));
  EXPECT_LT(error_of(model_of("llama"), folder / "adapter.gguf", "llama"), 1e-4);
  convert_model({model_of("llama"), folder / "model.gguf", "f32", 2});
  EXPECT_LT(error_of(folder / "model.gguf", folder / "adapter.gguf", "llama"), 1e-4);
}

TEST(GgufAdapters, ChangeTheEmbeddingUnlessItIsTheOutputMatrixToo) {
  const auto weights = open_weights(model_of("llama"));
  GgufBytes gguf;
  gguf.string("general.type", "adapter")
      .string("general.architecture", "llama")
      .string("adapter.type", "lora")
      .tensor("token_embd.weight.lora_a", {1, 64}, 0, bytes_of(std::vector<float>(64, 2)))
      .tensor("token_embd.weight.lora_b", {1, 32}, 0, bytes_of(std::vector<float>(32, 3)));
  const auto file = std::make_shared<const MappedFile>("a.gguf", gguf.bytes());
  const Adapter adapter = read_gguf_adapter(file, *weights);
  const LowRankChange& change = adapter.changes.at("decoder.embed.weight");
  std::vector<float> rows(64 * 32);
  change.add(change.read(), 0, 64, rows.data());
  EXPECT_EQ(rows, std::vector<float>(64 * 32, 6));
  EXPECT_THROW(read_gguf_adapter(file, *open_weights(model_of("llama3"))), Error);
}

TEST(AdaptedWeights, KeepTheirFormatUnlessItIsOfBlocks) {
  const TemporaryFolder folder;
  const auto format_of = [&](const std::string& type) {
    convert_model({model_of("llama"), folder / (type + ".gguf"), type, 2});
    const auto weights = change_weights(open_weights(folder / (type + ".gguf")),
                                        {.adapters = {{folder_of("llama")}}}, 2);
    return weights->require("decoder.layers.1.attn.v.weight").dtype;
  };
  EXPECT_EQ(format_of("f16"), DType::kF16);
  EXPECT_EQ(format_of("bf16"), DType::kBF16);
  EXPECT_EQ(format_of("q4_0"), DType::kQ8_0);
  const auto both = change_weights(open_weights(model_of("llama")),
                                   {.type = "q5_0", .adapters = {{folder_of("llama")}}}, 2);
  EXPECT_EQ(both->require("decoder.layers.1.attn.v.weight").dtype, DType::kQ5_0);
}

TEST(AdaptedWeights, AddSeveralAdapters) {
  const auto model = open_weights(model_of("llama"));
  const auto value_of = [&](const std::vector<AdapterFile>& adapters) {
    const auto weights = change_weights(open_weights(model_of("llama")), {.adapters = adapters}, 2);
    return weights->read(weights->require("decoder.layers.1.attn.v.weight"))[5];
  };
  const float plain = value_of({}), first = value_of({{folder_of("llama")}}),
              second = value_of({{folder_of("llama-patterns"), 0.5f}});
  EXPECT_NE(first, plain);
  EXPECT_NEAR(value_of({{folder_of("llama")}, {folder_of("llama-patterns"), 0.5f}}) - plain,
              (first - plain) + (second - plain), 1e-6);
  EXPECT_NEAR(value_of({{folder_of("llama")}, {folder_of("llama"), -1}}), plain, 1e-6);
}

class WrongAdapter : public testing::Test {
 protected:
  WrongAdapter() {
    fs::copy(folder_of("llama"), folder_ / "adapter", fs::copy_options::recursive);
    fs::permissions(folder_ / "adapter", fs::perms::owner_all);
  }
  std::string error_of(const std::string& model = "llama") const {
    try {
      read_adapter(folder_ / "adapter", *open_weights(model_of(model)));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kModel);
      return error.what();
    }
    return "no error";
  }
  void set(const std::string& key, const nlohmann::json& value) const {
    const fs::path path = folder_ / "adapter/adapter_config.json";
    auto config = nlohmann::json::parse(read_file(folder_of("llama") / "adapter_config.json"));
    config[key] = value;
    fs::remove(path);
    write_file(path, config.dump());
  }
  TemporaryFolder folder_;
};

TEST_F(WrongAdapter, IsRejectedForSettingsThatAreNoPlainLora) {
  for (const auto& [key, value, found] :
       std::vector<std::tuple<std::string, nlohmann::json, std::string>>{
           {"peft_type", "IA3", "expected peft_type LORA, found \"IA3\""},
           {"use_dora", true, "expected use_dora false"},
           {"fan_in_fan_out", true, "expected fan_in_fan_out false"},
           {"bias", "all", "expected bias none, found \"all\""},
           {"modules_to_save", {"lm_head"}, "expected no modules_to_save"},
           {"lora_alpha", "much", "expected lora_alpha to be a number"},
           {"lora_alpha", 0, "expected lora_alpha to be a number other than 0"},
           {"alpha_pattern", {{"q.*", 2}}, "expected names of modules in alpha_pattern"}}) {
    set(key, value);
    EXPECT_THAT(error_of(), HasSubstr(found));
    EXPECT_THAT(error_of(), HasSubstr("adapter_config.json"));
  }
}

TEST_F(WrongAdapter, IsRejectedForAnotherModelNamingTensorAndShapes) {
  EXPECT_THAT(error_of("qwen3"), HasSubstr("expected factors of a matrix [32, 32], that of "
                                           "model.layers.0.self_attn.k_proj.weight"));
  EXPECT_THAT(error_of("qwen3"),
              HasSubstr("found base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight "
                        "[16, 4] and "));
  EXPECT_THAT(error_of("olmoe"), HasSubstr("has no matrix model.layers.0.mlp.down_proj.weight"));
  fs::remove(folder_ / "adapter/adapter_model.safetensors");
  EXPECT_THAT(error_of(), HasSubstr("adapter_model.safetensors"));
}

TEST(GgufAdapters, AreRejectedIfTheyAreNone) {
  const auto weights = open_weights(model_of("llama"));
  const auto error_of = [&](const GgufBytes& gguf) -> std::string {
    try {
      read_gguf_adapter(std::make_shared<const MappedFile>("a.gguf", gguf.bytes()), *weights);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of(GgufBytes().string("general.architecture", "llama")),
              HasSubstr("a.gguf: expected general.type adapter, found none"));
  const auto start = [](const char* architecture) {
    return GgufBytes()
        .string("general.type", "adapter")
        .string("general.architecture", architecture)
        .string("adapter.type", "lora");
  };
  EXPECT_THAT(error_of(start("qwen2")), HasSubstr("expected general.architecture llama"));
  EXPECT_THAT(error_of(start("llama")), HasSubstr("found no tensor"));
  const std::vector<uint8_t> row = bytes_of(std::vector<float>(32, 1));
  EXPECT_THAT(error_of(start("llama").tensor("blk.0.attn_q.weight.lora_a", {32, 1}, 0, row)),
              HasSubstr("expected two factors of blk.0.attn_q.weight"));
  EXPECT_THAT(error_of(start("llama").tensor("blk.0.attn_q.weight", {32, 1}, 0, row)),
              HasSubstr("found tensor blk.0.attn_q.weight [1, 32]"));
  EXPECT_THAT(error_of(start("llama")
                           .tensor("blk.0.attn_q.weight.lora_a", {32, 1}, 0, row)
                           .tensor("blk.0.attn_q.weight.lora_b", {2, 16}, 0, row)),
              HasSubstr("expected factors of one rank"));
}

// Damaged files give an error or an adapter that can be added, never a crash.
TEST(AdapterDamage, IsAnErrorOrASoundAdapter) {
  const auto weights = open_weights(model_of("llama"));
  const std::string config = read_file(folder_of("llama") / "adapter_config.json");
  const std::string factors = read_file(folder_of("llama") / "adapter_model.safetensors");
  const std::vector<uint8_t> gguf = llama_in_gguf().bytes();
  std::mt19937 random(7);
  size_t n_sound = 0, n_errors = 0;
  const auto damage = [&](std::vector<uint8_t> bytes, size_t within) {
    const size_t at = random() % within;
    if (random() % 4 == 0) {
      bytes.resize(at);
    } else {
      bytes[at] = static_cast<uint8_t>(random());
    }
    return bytes;
  };
  const auto as_bytes = [](const std::string& text) {
    return std::vector<uint8_t>(text.begin(), text.end());
  };
  const auto use = [&](const auto& read) {
    try {
      const Adapter adapter = read();
      for (const auto& [name, change] : adapter.changes) {
        const TensorView& tensor = weights->require(name);
        std::vector<float> rows(tensor.n_elements());
        change.add(change.read(), 0, tensor.shape[0], rows.data());
      }
      ++n_sound;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kModel) << error.what();
      ++n_errors;
    }
  };
  const auto files = [](std::vector<uint8_t> config_bytes, std::vector<uint8_t> factor_bytes) {
    return ModelFiles(
        "adapter",
        {std::make_shared<const MappedFile>("adapter_config.json", std::move(config_bytes)),
         std::make_shared<const MappedFile>("adapter_model.safetensors", std::move(factor_bytes))});
  };
  constexpr size_t kHeader = 4000;  // most of the damage is in the description of the tensors
  for (int round = 0; round < 600; ++round) {
    use([&] {
      return read_peft_adapter(files(as_bytes(config), damage(as_bytes(factors), kHeader)),
                               *weights);
    });
    use([&] {
      return read_peft_adapter(files(damage(as_bytes(config), config.size()), as_bytes(factors)),
                               *weights);
    });
    use([&] {
      return read_gguf_adapter(std::make_shared<const MappedFile>("a.gguf", damage(gguf, kHeader)),
                               *weights);
    });
  }
  EXPECT_GT(n_sound, 50u);
  EXPECT_GT(n_errors, 300u);
}

}  // namespace
}  // namespace vesper::adapters_test

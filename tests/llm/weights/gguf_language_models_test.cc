// The tiny models of language_models/ converted to GGUF with llama.cpp's order and names give the
// same logits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "llm/devices/open_device.h"
#include "llm/generation/generator.h"
#include "llm/weights/hugging_face/safetensors.h"
#include "llm/weights/weight_provider.h"
#include "tests/llm/weights/gguf_bytes.h"

namespace vesper::gguf_language_models_test {
namespace {

namespace fs = std::filesystem;

struct Model {
  const char* folder;
  const char* architecture;
  bool is_permuted;              // rows of queries and keys: halves of pairs interleaved
  bool norm_weights_are_offset;  // transformers stores weights minus one
  float residual = 1;            // multiplier of Granite
};

fs::path folder_of(const Model& model) {
  return fs::path(VESPER_TEST_DATA) / "language_models" / model.folder;
}

// Part of a tensor's name inside a layer.
std::string name_in_layer(const std::string& stem) {
  static const std::map<std::string, std::string> names = {
      {"input_layernorm", "attn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.qkv_proj", "attn_qkv"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.gate_up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"post_attention_layernorm", "ffn_norm"},
      {"post_self_attn_layernorm", "post_attention_norm"},
      {"post_mlp_layernorm", "post_ffw_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
      {"mlp.gate", "ffn_gate_inp"},
      {"block_sparse_moe.gate", "ffn_gate_inp"},
      {"gate_proj", "ffn_gate_exps"},
      {"up_proj", "ffn_up_exps"},
      {"down_proj", "ffn_down_exps"},
      {"w1", "ffn_gate_exps"},
      {"w3", "ffn_up_exps"},
      {"w2", "ffn_down_exps"}};
  // "mlp.experts.3.up_proj"
  const size_t experts = stem.find(".experts.");
  return names.at(experts == std::string::npos ? stem : stem.substr(stem.rfind('.') + 1));
}

std::string gguf_name(std::string name) {
  if (name.starts_with("model.")) name.erase(0, 6);
  const size_t dot = name.rfind('.');
  const std::string stem = name.substr(0, dot), leaf = name.substr(dot);
  if (stem == "embed_tokens") return "token_embd" + leaf;
  if (stem == "norm") return "output_norm" + leaf;
  if (stem == "lm_head") return "output" + leaf;
  const size_t number = stem.find('.') + 1, rest = stem.find('.', number) + 1;
  return "blk." + stem.substr(number, rest - number) + name_in_layer(stem.substr(rest)) + leaf;
}

// Rows of a head: those of the two halves alternate.
std::vector<float> permuted(const std::vector<float>& rows, uint32_t n_heads, size_t width) {
  std::vector<float> result(rows.size());
  const size_t dim = rows.size() / width / n_heads;
  for (size_t h = 0; h < n_heads; ++h) {
    for (size_t i = 0; i < dim; ++i) {
      const size_t from = h * dim + i % 2 * (dim / 2) + i / 2;
      std::memcpy(&result[(h * dim + i) * width], &rows[from * width], width * sizeof(float));
    }
  }
  return result;
}

void add(GgufBytes& gguf, const std::string& name, std::vector<uint64_t> shape,
         const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  gguf.tensor(name, {shape.rbegin(), shape.rend()}, 0, bytes);
}

std::vector<uint8_t> gguf_of(const Model& model) {
  constexpr uint32_t kU32 = 4, kF32 = 6;
  const auto provider = open_weights(folder_of(model));
  const StackConfig& facts = provider->config(ModelType::kLanguageModel).decoder();
  const RopeSettings& rope = facts.ropes[0];
  uint32_t window = 0;
  for (const LayerConfig& layer : facts.layers) window = std::max(window, layer.sliding_window);
  const std::string prefix = std::string(model.architecture) + ".";
  GgufBytes gguf;
  gguf.string("general.architecture", model.architecture);
  const std::pair<const char*, uint32_t> counts[] = {
      {"block_count", facts.n_layers},
      {"context_length", facts.n_positions},
      {"embedding_length", facts.d_model},
      {"feed_forward_length", facts.d_ffn},
      {"attention.head_count", facts.n_heads},
      {"attention.head_count_kv", facts.n_kv_heads},
      {"attention.key_length", facts.head_dim},
      {"rope.dimension_count", 2 * rope.n_pairs},
      {"rope.scaling.original_context_length", rope.original_positions},
      {"attention.sliding_window", window}};
  for (const auto& [key, count] : counts) {
    if (count != 0) gguf.scalar<uint32_t>(prefix + key, kU32, count);
  }
  gguf.scalar<float>(prefix + "attention.layer_norm_rms_epsilon", kF32,
                     facts.norm_epsilon * model.residual * model.residual);
  gguf.scalar<float>(prefix + "rope.freq_base", kF32, rope.theta);
  if (!rope.long_freq_factors.empty()) {
    gguf.scalar<float>(prefix + "rope.scaling.attn_factor", kF32, rope.magnitude);
    add(gguf, "rope_factors_long.weight", {rope.long_freq_factors.size()}, rope.long_freq_factors);
    add(gguf, "rope_factors_short.weight", {rope.freq_factors.size()}, rope.freq_factors);
  }
  if (rope.scaling == RopeScaling::kYarn) {
    gguf.string(prefix + "rope.scaling.type", "yarn");
    gguf.scalar<float>(prefix + "rope.scaling.factor", kF32, rope.factor);
  }
  if (facts.experts.any()) {
    gguf.scalar<uint32_t>(prefix + "expert_count", kU32, facts.experts.n);
    gguf.scalar<uint32_t>(prefix + "expert_used_count", kU32, facts.experts.n_used);
    gguf.scalar<uint32_t>(prefix + "expert_feed_forward_length", kU32, facts.experts.d_ffn);
  }
  if (model.residual != 1) {
    gguf.scalar<float>(prefix + "residual_scale", kF32, model.residual);
    gguf.scalar<float>(prefix + "embedding_scale", kF32, facts.embedding_scale * model.residual);
    gguf.scalar<float>(prefix + "attention.scale", kF32, facts.attention_scale);
    gguf.scalar<float>(prefix + "logit_scale", kF32, 1 / facts.logit_scale);
  }
  std::map<std::string, std::pair<std::vector<uint64_t>, std::vector<float>>> stacks;
  Safetensors tensors;
  read_safetensors(std::make_shared<MappedFile>(folder_of(model) / "model.safetensors"), tensors);
  for (const TensorView& tensor : tensors.tensors) {
    std::vector<float> values = read_f32(tensor);
    const bool is_query = tensor.name.find(".q_proj.") != std::string::npos;
    if (model.is_permuted && (is_query || tensor.name.find(".k_proj.") != std::string::npos)) {
      values = permuted(values, is_query ? facts.n_heads : facts.n_kv_heads, facts.d_model);
    }
    if (model.norm_weights_are_offset && tensor.name.find("norm") != std::string::npos) {
      for (float& norm_weight : values) norm_weight += 1;
    }
    std::string name = gguf_name(tensor.name);
    if (std::string(model.architecture) == "olmo2" &&
        tensor.name.find("post_attention_layernorm") != std::string::npos) {
      name.replace(name.find("ffn_norm"), 8, "post_attention_norm");
    }
    if (name.find("_exps") == std::string::npos) {
      add(gguf, name, tensor.shape, values);
      continue;
    }
    auto& [shape, numbers] = stacks[name];
    shape = {shape.empty() ? 1 : shape[0] + 1, tensor.shape[0], tensor.shape[1]};
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  for (const auto& [name, stack] : stacks) add(gguf, name, stack.first, stack.second);
  return gguf.bytes();
}

std::vector<float> logits_of(const WeightProvider& provider) {
  const auto device = open_device("cpu", {});
  GeneratorOptions options;
  options.n_ctx = 64;
  options.kv_types = DType::kF32;
  Generator generator(*device, provider, Compute::kF32, options);
  std::vector<int32_t> text(40);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(i * 7 % 64);
  std::vector<float> all;
  generator.evaluate(text, [&](uint32_t, uint32_t n, const float* logits) {
    all.insert(all.end(), logits, logits + size_t{n} * generator.n_vocab());
  });
  return all;
}

TEST(GgufLanguageModels, GiveTheSameLogitsAsSafetensors) {
  for (const Model& model :
       {Model{"llama", "llama", true, false}, Model{"qwen2", "qwen2", false, false},
        Model{"qwen3", "qwen3", false, false}, Model{"gemma", "gemma", false, true},
        Model{"phi3", "phi3", false, false}, Model{"phi3-long", "phi3", false, false},
        Model{"phi4", "phi3", false, false}, Model{"smollm3", "smollm3", true, false},
        Model{"granite", "granite", true, false, 0.22f}, Model{"glm", "chatglm", false, false},
        Model{"glm4", "glm4", false, false}, Model{"olmo2", "olmo2", false, false},
        Model{"olmo3", "olmo2", false, false}, Model{"olmoe", "olmoe", false, false},
        Model{"qwen3-moe", "qwen3moe", false, false}}) {
    SCOPED_TRACE(model.folder);
    const std::vector<float> wanted = logits_of(*open_weights(folder_of(model)));
    const auto gguf =
        open_weights(std::make_shared<const MappedFile>("model.gguf", gguf_of(model)));
    const std::vector<float> found = logits_of(*gguf);
    ASSERT_EQ(found.size(), wanted.size());
    double worst = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      worst = std::max(worst, std::abs(double{found[i]} - wanted[i]));
    }
    EXPECT_LT(worst, 1e-4);
  }
}

}  // namespace
}  // namespace vesper::gguf_language_models_test

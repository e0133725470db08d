// The tiny models of language_models/ converted to GGUF with llama.cpp's order and names give the
// same logits. Invalid files of mixtures of experts are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>

#include "error/error.h"
#include "llm/weights/hugging_face/safetensors.h"
#include "llm/weights/weight_provider.h"
#include "tests/llm/models/all_logits.h"
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

// How a file of a mixture of experts differs from what llama.cpp's converter writes.
struct Change {
  std::map<std::string, uint32_t> counts = {};  // metadata, by the key without the architecture
  std::string tensor = {};                      // has another shape; without one, it is left out
  std::vector<uint64_t> shape = {};
  bool splits_experts = false;  // one tensor per expert, as until April 2024
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
      {"mlp.router", "ffn_gate_inp"},
      {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
      {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
      {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
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
  // A vector without a last component.
  if (name.ends_with("self_attn.sinks")) {
    return "blk." + name.substr(7, name.find('.', 7) - 7) + ".attn_sinks.weight";
  }
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
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  gguf.tensor(name, {shape.rbegin(), shape.rend()}, 0,
              {bytes, bytes + values.size() * sizeof(float)});
}

// The part of a tensor of all experts of gpt-oss that holds gates, values or the last products:
// rows first, first + step, ... of an expert.
struct ExpertPart {
  std::string name;
  size_t first, step;
};
std::vector<ExpertPart> expert_parts(const std::string& tensor) {
  const size_t layer = tensor.find("layers.") + 7;
  const std::string stem = "blk." + tensor.substr(layer, tensor.find('.', layer) - layer) + ".ffn_";
  const std::string leaf = tensor.ends_with("_bias") ? "_exps.bias" : "_exps.weight";
  if (tensor.find("gate_up") == std::string::npos) return {{stem + "down" + leaf, 0, 1}};
  return {{stem + "gate" + leaf, 0, 2}, {stem + "up" + leaf, 1, 2}};
}

// Experts [n, columns, rows], or biases [n, rows].
void add_experts(GgufBytes& gguf, const TensorView& tensor) {
  const bool is_bias = tensor.name.ends_with("_bias");
  const size_t n = tensor.shape[0], rows = tensor.shape.back(),
               columns = is_bias ? 1 : tensor.shape[1];
  const std::vector<float> values = read_f32(tensor);
  for (const ExpertPart& part : expert_parts(tensor.name)) {
    std::vector<float> found;
    for (size_t e = 0; e < n; ++e) {
      for (size_t row = part.first; row < rows; row += part.step) {
        for (size_t c = 0; c < columns; ++c)
          found.push_back(values[(e * columns + c) * rows + row]);
      }
    }
    std::vector<uint64_t> shape = {n, rows / part.step};
    if (!is_bias) shape.push_back(columns);
    add(gguf, part.name, shape, found);
  }
}

// Experts of MXFP4. In safetensors, byte j of a block has elements 2 j (low bits) and 2 j + 1; in
// GGUF, elements j and j + 16, after the scale.
void add_mxfp4_experts(GgufBytes& gguf, const UnreadableTensor& blocks,
                       const UnreadableTensor& scales) {
  constexpr uint32_t kMxfp4 = 39;
  const auto* pairs = static_cast<const uint8_t*>(blocks.data);
  const auto* exponents = static_cast<const uint8_t*>(scales.data);
  const uint64_t n = blocks.shape[0], rows = blocks.shape[1], n_blocks = blocks.shape[2];
  for (const ExpertPart& part : expert_parts(blocks.name)) {
    std::vector<uint8_t> bytes;
    for (size_t e = 0; e < n; ++e) {
      for (size_t row = part.first; row < rows; row += part.step) {
        for (size_t b = 0; b < n_blocks; ++b) {
          const size_t at = (e * rows + row) * n_blocks + b;
          const auto code = [&](size_t i) { return pairs[at * 16 + i / 2] >> i % 2 * 4 & 15; };
          bytes.push_back(exponents[at]);
          for (size_t j = 0; j < 16; ++j) {
            bytes.push_back(static_cast<uint8_t>(code(j) | code(j + 16) << 4));
          }
        }
      }
    }
    gguf.tensor(part.name, {n_blocks * 32, rows / part.step, n}, kMxfp4, bytes);
  }
}

std::vector<uint8_t> gguf_of(const Model& model, const Change& change = {}) {
  constexpr uint32_t kU32 = 4, kF32 = 6;
  const auto provider = open_weights(folder_of(model));
  const StackConfig& facts = provider->config(ModelType::kLanguageModel).decoder();
  const RopeSettings& rope = facts.ropes[0];
  uint32_t window = 0;
  for (const LayerConfig& layer : facts.layers) window = std::max(window, layer.sliding_window);
  const std::string prefix = std::string(model.architecture) + ".";
  GgufBytes gguf;
  gguf.string("general.architecture", model.architecture);
  std::map<std::string, uint32_t> counts = {
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
  if (facts.experts.any()) {
    counts["expert_count"] = facts.experts.n;
    counts["expert_used_count"] = facts.experts.n_used;
    counts["expert_feed_forward_length"] = facts.experts.d_ffn;
    counts["expert_shared_feed_forward_length"] = facts.experts.d_shared;
  }
  for (const auto& [key, count] : change.counts) counts[key] = count;
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
  if (model.residual != 1) {
    gguf.scalar<float>(prefix + "residual_scale", kF32, model.residual);
    gguf.scalar<float>(prefix + "embedding_scale", kF32, facts.embedding_scale * model.residual);
    gguf.scalar<float>(prefix + "attention.scale", kF32, facts.attention_scale);
    gguf.scalar<float>(prefix + "logit_scale", kF32, 1 / facts.logit_scale);
  }
  const auto add_changed = [&](const std::string& name, std::vector<uint64_t> shape,
                               std::vector<float> values) {
    if (name == change.tensor) {
      shape = change.shape;
      const uint64_t n =
          std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies());
      values.resize(n);
    }
    if (!shape.empty()) add(gguf, name, shape, values);
  };
  std::map<std::string, std::pair<std::vector<uint64_t>, std::vector<float>>> stacks;
  Safetensors tensors;
  read_safetensors(std::make_shared<MappedFile>(folder_of(model) / "model.safetensors"), tensors);
  for (const TensorView& tensor : tensors.tensors) {
    const bool is_gpt_oss = std::string(model.architecture) == "gpt-oss";
    if (is_gpt_oss && tensor.name.find(".mlp.experts.") != std::string::npos) {
      add_experts(gguf, tensor);
      continue;
    }
    std::vector<float> values = read_f32(tensor);
    const bool is_query = tensor.name.find(".q_proj.") != std::string::npos;
    if (model.is_permuted && (is_query || tensor.name.find(".k_proj.") != std::string::npos)) {
      values = permuted(values, is_query ? facts.n_heads : facts.n_kv_heads, facts.d_model);
    }
    if (model.norm_weights_are_offset && tensor.name.find("norm") != std::string::npos) {
      for (float& norm_weight : values) norm_weight += 1;
    }
    std::string name = gguf_name(tensor.name);
    if ((is_gpt_oss || std::string(model.architecture) == "olmo2") &&
        tensor.name.find("post_attention_layernorm") != std::string::npos) {
      name.replace(name.find("ffn_norm"), 8, "post_attention_norm");
    }
    if (name.find("_exps") == std::string::npos) {
      // llama.cpp's converter removes dimensions of size 1.
      std::vector<uint64_t> shape = tensor.shape;
      std::erase(shape, 1u);
      add_changed(name, shape, values);
      continue;
    }
    if (change.splits_experts) {
      // "mlp.experts.3.up_proj"
      const size_t number = tensor.name.find(".experts.") + 8;
      name.replace(name.find("_exps"), 5,
                   tensor.name.substr(number, tensor.name.find('.', number + 1) - number));
      add_changed(name, tensor.shape, values);
      continue;
    }
    auto& [shape, numbers] = stacks[name];
    shape = {shape.empty() ? 1 : shape[0] + 1, tensor.shape[0], tensor.shape[1]};
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  for (const auto& [name, stack] : stacks) add_changed(name, stack.first, stack.second);
  for (const UnreadableTensor& blocks : tensors.unreadable) {
    if (!blocks.name.ends_with("_blocks")) continue;
    const std::string scales = blocks.name.substr(0, blocks.name.size() - 6) + "scales";
    add_mxfp4_experts(gguf, blocks,
                      *std::ranges::find(tensors.unreadable, scales, &UnreadableTensor::name));
  }
  return gguf.bytes();
}

std::vector<float> logits_of(const WeightProvider& weights) {
  return all_logits(weights, text_of_tokens(40));
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
        Model{"qwen3-moe", "qwen3moe", false, false}, Model{"gpt-oss", "gpt-oss", false, false},
        Model{"gpt-oss-mxfp4", "gpt-oss", false, false},
        Model{"qwen2-moe", "qwen2moe", false, false}}) {
    SCOPED_TRACE(model.folder);
    const auto gguf =
        open_weights(std::make_shared<const MappedFile>("model.gguf", gguf_of(model)));
    EXPECT_LT(largest_difference(logits_of(*gguf), logits_of(*open_weights(folder_of(model)))),
              1e-4);
  }
}

std::unique_ptr<WeightProvider> open(const Model& model, const Change& change) {
  return open_weights(std::make_shared<const MappedFile>("model.gguf", gguf_of(model, change)));
}

constexpr Model kMixture = {"qwen2-moe", "qwen2moe", false, false};

TEST(GgufExperts, MayHaveATensorEach) {
  EXPECT_EQ(logits_of(*open(kMixture, {.splits_experts = true})), logits_of(*open(kMixture, {})));
}

TEST(GgufExperts, RefuseInvalidFiles) {
  struct Invalid {
    Change change;
    const char* message;
  };
  const std::string up = "blk.0.ffn_up_exps.weight";
  const Invalid files[] = {
      {{{{"expert_count", 7}}}, "[7, 32], found [6, 32]"},
      {{{{"expert_count", 5}}}, "[5, 32], found [6, 32]"},
      {{{{"expert_count", 0}}}, "expected a tensor decoder.layers.0.ffn.gate.weight"},
      {{{{"expert_count", 4000000000}}}, "number of experts between 1 and 512"},
      {{{{"expert_used_count", 0}}}, "number of experts of a token between 1 and 6, found 0"},
      {{{{"expert_used_count", 7}}}, "number of experts of a token between 1 and 6, found 7"},
      {{{{"expert_feed_forward_length", 32}}}, "shape [32, 32], found [16, 32]"},
      {{{{"expert_feed_forward_length", 24}}}, "multiples of 16, found 24"},
      {{{{"expert_shared_feed_forward_length", 24}}}, "shape [24, 32], found [40, 32]"},
      {{{{"expert_shared_feed_forward_length", 4000000000}}}, "width of the shared expert"},
      {{{}, up}, "expected a tensor decoder.layers.0.experts.0.up.weight"},
      {{{}, up, {5, 16, 32}}, "expected a tensor decoder.layers.0.experts.5.up.weight"},
      {{{}, up, {6, 32, 16}}, "shape [16, 32], found [32, 16]"},
      {{{}, up, {6, 16}}, "shape [16, 32], found [16]"},
      {{{}, up, {96, 32}}, "shape [16, 32], found [32]"},
      {{{}, up, {600, 16, 32}}, "expected a tensor decoder.layers.0.experts.0.up.weight"},
      {{{}, up, {0, 16, 32}}, "expected a tensor decoder.layers.0.experts.0.up.weight"},
      {{{}, up, {6, 0, 32}}, "shape [16, 32], found [0, 32]"},
      {{{}, "blk.0.ffn_gate_inp.weight", {7, 32}}, "shape [6, 32], found [7, 32]"},
      {{{}, "blk.0.ffn_gate_inp_shexp.weight", {33}}, "shape [1, 32], found [1, 33]"},
      {{{}, "blk.0.ffn_gate_inp_shexp.weight"}, "decoder.layers.0.shared.router.weight"},
      {{{}, "blk.0.ffn_down_shexp.weight", {40, 32}}, "shape [32, 40], found [40, 32]"},
      {{{}, "blk.2.ffn_down.4.weight", {}, true}, "decoder.layers.2.experts.4.down.weight"},
      {{{}, "blk.2.ffn_down.4.weight", {16, 32}, true}, "shape [32, 16], found [16, 32]"},
  };
  for (const Invalid& file : files) {
    std::string message = "no error";
    try {
      open(kMixture, file.change)->config(ModelType::kLanguageModel);
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_THAT(message, testing::HasSubstr(file.message));
  }
}

TEST(GgufGptOss, RefusesInvalidSinks) {
  const Model model = {"gpt-oss", "gpt-oss", false, false};
  const auto error_of = [&](const Change& change) -> std::string {
    try {
      open(model, change)->config(ModelType::kLanguageModel);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  for (const char* layer : {"0", "2"}) {
    EXPECT_THAT(error_of({{}, "blk." + std::string(layer) + ".attn_sinks.weight"}),
                testing::HasSubstr("expected a tensor decoder.layers." + std::string(layer) +
                                   ".attn.sinks.weight"));
  }
  EXPECT_THAT(error_of({{}, "blk.0.attn_sinks.weight", {8}}),
              testing::HasSubstr("shape [4], found [8]"));
}

}  // namespace
}  // namespace vesper::gguf_language_models_test

#include "llm/weights/gguf/gguf_model.h"

#include <cmath>

#include "llm/weights/name_tensors.h"

namespace vesper {
namespace {

void read_rope(const GgufMetadata& metadata, const ModelFamily& family, StackConfig& stack,
               ModelConfig& model) {
  RopeSettings rope;
  rope.theta = family.rope_theta;
  if (const float theta = metadata.number("rope.freq_base"); theta > 0) rope.theta = theta;
  const uint32_t n_rotated = metadata.count("rope.dimension_count");
  rope.n_pairs = (n_rotated != 0 ? n_rotated : stack.head_dim) / 2;
  if (const float factor = metadata.number("rope.scaling.factor"); factor > 0) {
    rope.factor = factor;
  }
  rope.original_positions = metadata.count("rope.scaling.original_context_length");
  if (rope.original_positions == 0) rope.original_positions = stack.n_positions;
  const std::string type = metadata.text("rope.scaling.type");
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    rope.truncates = family.truncates_yarn;
    rope.magnitude = 0.1f * std::log(rope.factor) + 1;
  } else if (!type.empty() && type != "none" && type != "longrope") {
    model.unsupported = "expected a known rope scaling, found type " + type.substr(0, 60);
  }
  if (const float magnitude = metadata.number("rope.scaling.attn_factor"); magnitude > 0) {
    rope.magnitude *= magnitude;
  }
  stack.ropes = {rope};
  stack.interleaved_rope |= family.gguf_interleaved_rope;
}

void read_layers(const GgufMetadata& metadata, const ModelFamily& family, StackConfig& stack,
                 ModelConfig& model) {
  LayerFacts layers;
  layers.sliding_window = metadata.count("attention.sliding_window");
  if (stack.attention == AttentionKind::kBidirectional) {
    // Both sides together, without the position itself.
    if (layers.sliding_window != 0) layers.sliding_window = layers.sliding_window / 2 + 1;
    layers.window_rope_theta = metadata.number("rope.freq_base_swa");
    if (family.window_period != 0) {
      layers.window_period = metadata.count("attention.sliding_window_pattern");
    }
  }
  set_layers(family, layers, stack, model);
}

ModelConfig read_facts(const GgufMetadata& metadata, const ModelFamily& family) {
  ModelConfig model = start_config(family);
  StackConfig& stack = model.decoder();
  model.n_vocab = metadata.count("vocab_size");
  stack.d_model = metadata.count("embedding_length");
  stack.n_layers = metadata.count("block_count");
  stack.d_ffn = metadata.count("feed_forward_length");
  stack.n_heads = metadata.count("attention.head_count");
  stack.n_kv_heads = metadata.count("attention.head_count_kv");
  stack.head_dim = metadata.count("attention.key_length");
  stack.n_positions = metadata.count("context_length");
  if (family.has_experts) {
    stack.experts.n = metadata.count("expert_count");
    stack.experts.n_used = metadata.count("expert_used_count");
    stack.experts.d_ffn = metadata.count("expert_feed_forward_length");
    if (stack.experts.d_ffn == 0) stack.experts.d_ffn = stack.d_ffn;
    stack.experts.d_shared = metadata.count("expert_shared_feed_forward_length");
  }
  const float epsilon =
      metadata.number(stack.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                                   : "attention.layer_norm_epsilon");
  if (epsilon > 0) stack.norm_epsilon = epsilon;
  stack.attention_soft_cap = metadata.number("attn_logit_softcapping");
  stack.logit_soft_cap = metadata.number("final_logit_softcapping");
  complete_sizes(family, stack);
  if (family.has_multipliers) {
    const auto factor = [&](const char* key) {
      const float value = metadata.number(key);
      return value > 0 ? value : 1;
    };
    set_multipliers({.embedding = factor("embedding_scale"),
                     .residual = factor("residual_scale"),
                     .attention = metadata.number("attention.scale"),
                     .logits = 1 / factor("logit_scale")},
                    stack);
  }
  if (stack.positions == PositionKind::kRope) read_rope(metadata, family, stack, model);
  read_layers(metadata, family, stack, model);
  if (stack.n_layers != 0 && stack.n_layers == family.gguf_width_scaled_layers &&
      stack.n_heads != 0 && stack.d_model != 0) {
    stack.attention_scale =
        std::sqrt(static_cast<float>(stack.n_heads) / static_cast<float>(stack.d_model));
  }
  return model;
}

}  // namespace

void read_gguf_model(const GgufMetadata& metadata, const ModelFamily& family,
                     ModelContents& contents) {
  ModelConfig& model = contents.config.emplace(read_facts(metadata, family));
  StackConfig& stack = model.decoder();
  name_tensors(*family.gguf_names, family, contents);
  const std::string prefix(stack.name);
  for (TensorView& tensor : contents.tensors) {
    // llama.cpp's converter writes a matrix of one row as a vector.
    if (tensor.name.ends_with(".shared.router.weight") && tensor.shape.size() == 1) {
      tensor.shape.insert(tensor.shape.begin(), 1);
    }
    const bool is_f32 = tensor.dtype == DType::kF32;
    // Without a stated size, the vocabulary has the length of the embedding.
    if (model.n_vocab == 0 && tensor.name == prefix + ".embed.weight" && tensor.shape.size() == 2 &&
        tensor.shape[0] <= UINT32_MAX) {
      model.n_vocab = static_cast<uint32_t>(tensor.shape[0]);
    } else if (is_f32 && !stack.ropes.empty()) {
      RopeSettings& rope = stack.ropes[0];
      if (tensor.name == prefix + ".rope_freqs.weight" ||
          tensor.name == prefix + ".rope_freqs_short.weight") {
        rope.freq_factors = read_f32(tensor);
      } else if (tensor.name == prefix + ".rope_freqs_long.weight") {
        rope.long_freq_factors = read_f32(tensor);
      }
    }
  }
}

}  // namespace vesper

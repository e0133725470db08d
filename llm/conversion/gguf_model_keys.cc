#include <algorithm>
#include <cmath>

#include "error/number_text.h"
#include "llm/conversion/gguf_keys.h"

namespace vesper {
namespace {

// Keys that begin with the architecture. Zeros are not written: readers take them for "none".
class Keys {
 public:
  Keys(std::string prefix, GgufWriter& writer) : prefix_(std::move(prefix)), writer_(writer) {}

  void count(const char* key, uint32_t value) {
    if (value != 0) writer_.add(prefix_ + key, value);
  }
  void number(const char* key, float value) {
    if (value != 0) writer_.add(prefix_ + key, value);
  }
  void text(const char* key, const char* value) { writer_.add(prefix_ + key, value); }
  void truth(const char* key, bool value) { writer_.add(prefix_ + key, value); }

 private:
  std::string prefix_;
  GgufWriter& writer_;
};

void write_rope(const StackConfig& stack, Keys& keys) {
  const RopeSettings& rope = stack.ropes[0];
  keys.count("rope.dimension_count", 2 * rope.n_pairs);
  keys.number("rope.freq_base", rope.theta);
  if (stack.ropes.size() > 1) keys.number("rope.freq_base_swa", stack.ropes[1].theta);
  float usual = 1;
  if (rope.scaling == RopeScaling::kLinear) {
    keys.text("rope.scaling.type", "linear");
  } else if (rope.scaling == RopeScaling::kYarn) {
    keys.text("rope.scaling.type", "yarn");
    usual = 0.1f * std::log(rope.factor) + 1;
  } else if (!rope.long_freq_factors.empty()) {
    keys.text("rope.scaling.type", "longrope");
  }
  // Of Llama 3's scaling, the frequencies are a tensor.
  if (rope.scaling != RopeScaling::kNone && rope.scaling != RopeScaling::kLlama3) {
    keys.number("rope.scaling.factor", rope.factor);
  }
  if (rope.scaling == RopeScaling::kYarn || !rope.long_freq_factors.empty()) {
    keys.count("rope.scaling.original_context_length", rope.original_positions);
  }
  if (rope.magnitude != usual) keys.number("rope.scaling.attn_factor", rope.magnitude / usual);
}

uint32_t window_of(const StackConfig& stack) {
  uint32_t window = 0;
  for (const LayerConfig& layer : stack.layers) window = std::max(window, layer.sliding_window);
  return window;
}

// Finds the first difference.
class Comparison {
 public:
  std::string difference;

  void check(const char* fact, double source, double converted) {
    const double tolerance = 1e-5 * std::max(std::fabs(source), std::fabs(converted));
    if (!difference.empty() || std::fabs(source - converted) <= tolerance) return;
    difference =
        formatted("the %s is %.6g, and %.6g in the converted file", fact, source, converted);
  }

  void check_stack(const StackConfig& a, const StackConfig& b) {
    check("number of layers", a.n_layers, b.n_layers);
    check("width", a.d_model, b.d_model);
    check("number of heads", a.n_heads, b.n_heads);
    check("number of key-value heads", a.n_kv_heads, b.n_kv_heads);
    check("head width", a.head_dim, b.head_dim);
    check("feed-forward width", a.d_ffn, b.d_ffn);
    check("number of experts", a.experts.n, b.experts.n);
    check("number of experts of a token", a.experts.n_used, b.experts.n_used);
    check("width of the shared expert", a.experts.d_shared, b.experts.d_shared);
    check("normalization of experts' weights", a.experts.normalizes, b.experts.normalizes);
    check("context length", a.n_positions, b.n_positions);
    check("attention scale", scale_of(a), scale_of(b));
    check("soft cap of attention", a.attention_soft_cap, b.attention_soft_cap);
    check("soft cap of logits", a.logit_soft_cap, b.logit_soft_cap);
    check("direction of attention", number(a.attention), number(b.attention));
    check("scale of logits", a.logit_scale, b.logit_scale);
    check("embedding scale", a.embedding_scale, b.embedding_scale);
    check("kind of positions", number(a.positions), number(b.positions));
    check("kind of norm", number(a.norm), number(b.norm));
    check("placement of norms", number(a.norm_placement), number(b.norm_placement));
    check("epsilon of norms", a.norm_epsilon, b.norm_epsilon);
    check("activation", number(a.activation), number(b.activation));
    check("gate of feed-forward blocks", a.gated_ffn, b.gated_ffn);
    for (size_t i = 0; difference.empty() && i < a.layers.size(); ++i) {
      check("sliding window", seen(a, i), seen(b, i));
      check_rope(a, b, i);
    }
  }

 private:
  template <typename Enum>
  static double number(Enum value) {
    return static_cast<double>(value);
  }
  static double scale_of(const StackConfig& stack) {
    return stack.attention_scale != 0 ? stack.attention_scale : 1 / std::sqrt(stack.head_dim);
  }
  // A window as long as the context is none.
  static double seen(const StackConfig& stack, size_t layer) {
    const uint32_t window = stack.layers[layer].sliding_window;
    return window == 0 ? stack.n_positions : std::min(window, stack.n_positions);
  }

  void check_rope(const StackConfig& a, const StackConfig& b, size_t layer) {
    const auto &rope_a = a.layers[layer].rope, &rope_b = b.layers[layer].rope;
    check("rotation of a layer", rope_a.has_value(), rope_b.has_value());
    if (!difference.empty() || !rope_a) return;
    const RopeSettings &from = a.ropes[*rope_a], &to = b.ropes[*rope_b];
    check("number of rotary pairs", from.n_pairs, to.n_pairs);
    check("magnitude of rotary embeddings", from.magnitude, to.magnitude);
    for (const uint32_t n : {a.n_positions, from.original_positions}) {
      if (!difference.empty() || n == 0) return;
      const auto wanted = rope_frequencies(from, n), found = rope_frequencies(to, n);
      for (size_t i = 0; i < wanted.size(); ++i) check("rotary frequency", wanted[i], found[i]);
    }
  }
};

}  // namespace

void write_model_keys(const ModelConfig& model, const ModelFamily& family, GgufWriter& writer) {
  const StackConfig& stack = model.decoder();
  Keys keys(std::string(family.gguf) + ".", writer);
  keys.count("vocab_size", model.n_vocab);
  keys.count("context_length", stack.n_positions);
  keys.count("embedding_length", stack.d_model);
  keys.count("block_count", stack.n_layers);
  keys.count("feed_forward_length", stack.d_ffn);
  keys.count("attention.head_count", stack.n_heads);
  keys.count("attention.head_count_kv", stack.n_kv_heads);
  keys.count("attention.key_length", stack.head_dim);
  keys.count("attention.value_length", stack.head_dim);
  keys.number(stack.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                           : "attention.layer_norm_epsilon",
              stack.norm_epsilon);
  if (stack.attention == AttentionKind::kBidirectional) {
    keys.truth("attention.causal", false);
    if (const uint32_t window = window_of(stack)) {
      keys.count("attention.sliding_window", 2 * (window - 1));
    }
  } else {
    keys.count("attention.sliding_window", window_of(stack));
  }
  keys.number("attn_logit_softcapping", stack.attention_soft_cap);
  keys.number("final_logit_softcapping", stack.logit_soft_cap);
  if (family.has_multipliers) {
    keys.number("embedding_scale", stack.embedding_scale);
    keys.number("residual_scale", 1);  // part of the embedding's and of the epsilon
    keys.number("attention.scale", stack.attention_scale);
    keys.number("logit_scale", 1 / stack.logit_scale);
  }
  if (stack.experts.any()) {
    keys.count("expert_count", stack.experts.n);
    keys.count("expert_used_count", stack.experts.n_used);
    keys.count("expert_feed_forward_length", stack.experts.d_ffn);
    keys.count("expert_shared_feed_forward_length", stack.experts.d_shared);
  }
  if (!stack.ropes.empty()) write_rope(stack, keys);
}

void write_encoder_keys(const ModelFamily& family, uint32_t n_token_types, uint32_t pooling_type,
                        GgufWriter& writer) {
  Keys(std::string(family.gguf) + ".", writer).count("pooling_type", pooling_type);
  Keys("tokenizer.ggml.", writer).count("token_type_count", n_token_types);
}

std::string configuration_difference(const ModelConfig& source, const ModelConfig& converted) {
  Comparison comparison;
  comparison.check("vocabulary", source.n_vocab, converted.n_vocab);
  comparison.check("number of mel filters", source.n_mels, converted.n_mels);
  for (size_t i = 0; i < source.stacks.size(); ++i) {
    comparison.check_stack(source.stacks[i], converted.stacks.at(i));
  }
  return comparison.difference;
}

}  // namespace vesper

#include "llm/weights/hugging_face/config_json.h"

#include <algorithm>
#include <cmath>

#include "llm/files/json_file.h"

namespace vesper {
namespace {

using nlohmann::json;

// A value that a member must have, if present, for the engine to run the model.
struct Requirement {
  const char* key;
  json value;
};

void require(const ConfigJson& config, std::initializer_list<Requirement> requirements,
             ModelConfig& model) {
  for (const Requirement& requirement : requirements) {
    const json* value = config.find(requirement.key);
    if (value == nullptr || *value == requirement.value || !model.unsupported.empty()) continue;
    model.unsupported = std::string("expected ") + requirement.key + " " +
                        shown_json(&requirement.value) + ", found " + shown_json(value);
  }
}

// RopeSettings that rotate whole heads.
RopeSettings whole_heads(const StackConfig& stack, float theta) {
  RopeSettings rope;
  rope.n_pairs = stack.head_dim / 2;
  rope.theta = theta;
  return rope;
}

// The rotary base: newer files have it in an object, older ones under another key.
float rope_theta(const ConfigJson& config, const ConfigJson& parameters, const char* older_key,
                 float otherwise) {
  return parameters.number({"rope_theta"}, config.number({older_key}, otherwise));
}

void read_scaling(const ConfigJson& config, const ConfigJson& scaling, const ModelFamily& family,
                  const StackConfig& stack, RopeSettings& rope, ModelConfig& model) {
  const std::string type = scaling.text("rope_type", scaling.text("type", "default").c_str());
  if (type == "default") return;
  rope.factor = scaling.number({"factor"}, 1);
  rope.original_positions = scaling.count({"original_max_position_embeddings"});
  if (rope.original_positions == 0) {
    rope.original_positions = config.count({"original_max_position_embeddings"});
  }
  if (rope.original_positions == 0) rope.original_positions = stack.n_positions;
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "llama3") {
    rope.scaling = RopeScaling::kLlama3;
    rope.low_frequency = scaling.number({"low_freq_factor"}, 1);
    rope.high_frequency = scaling.number({"high_freq_factor"}, 4);
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    rope.beta_fast = scaling.number({"beta_fast"}, 32);
    rope.beta_slow = scaling.number({"beta_slow"}, 1);
    rope.truncates = scaling.truth("truncate", family.truncates_yarn);
    const float usual = rope.factor > 1 ? 0.1f * std::log(rope.factor) + 1 : 1;
    rope.magnitude = scaling.number({"attention_factor"}, usual);
    if (scaling.find("mscale") != nullptr) {
      model.unsupported = "expected a known rope_scaling, found one with mscale";
    }
  } else if (type == "longrope" || type == "su") {
    rope.freq_factors = scaling.numbers("short_factor");
    rope.long_freq_factors = scaling.numbers("long_factor");
    // Without a factor, use the ratio of the contexts.
    const float factor = scaling.find("factor") != nullptr
                             ? rope.factor
                             : static_cast<float>(stack.n_positions) /
                                   static_cast<float>(std::max(rope.original_positions, 1u));
    const float usual =
        factor > 1 ? std::sqrt(1 + std::log(factor) /
                                       std::log(static_cast<float>(rope.original_positions)))
                   : 1;
    rope.magnitude = scaling.number({"attention_factor"}, usual);
  } else {
    model.unsupported = "expected a known rope_scaling, found type " + type.substr(0, 60);
  }
}

// Sets stack.ropes[0]. Returns the base of layers with a sliding window, 0 if not stated.
float read_rope(const ConfigJson& config, const ModelFamily& family, StackConfig& stack,
                ModelConfig& model) {
  RopeSettings rope;
  float window_theta = config.number({"rope_local_base_freq"});
  rope.theta = config.number({"rope_theta"}, family.rope_theta);
  float part = config.number({"partial_rotary_factor"}, 1);
  // Newer files have all values in one object, or in one object per kind of layer.
  if (config.find("rope_parameters") != nullptr) {
    const ConfigJson all = config.member("rope_parameters");
    const bool by_kind = all.find("full_attention") != nullptr;
    const ConfigJson full = by_kind ? all.member("full_attention") : all;
    rope.theta = full.number({"rope_theta"}, rope.theta);
    part = full.number({"partial_rotary_factor"}, part);
    read_scaling(config, full, family, stack, rope, model);
    if (by_kind) {
      window_theta = all.member("sliding_attention").number({"rope_theta"}, window_theta);
    }
  } else {
    read_scaling(config, config.member("rope_scaling"), family, stack, rope, model);
  }
  constexpr float kMostRotated = 1e6f;
  rope.n_pairs =
      static_cast<uint32_t>(std::min(static_cast<float>(stack.head_dim) * part, kMostRotated)) / 2;
  stack.ropes = {rope};
  return window_theta;
}

}  // namespace

const json* ConfigJson::find(const char* key) const { return find_member(object_, key); }

uint32_t ConfigJson::count(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) {
    if (find(key) != nullptr) return count_member(name_, object_, key);
  }
  return 0;
}

float ConfigJson::number(std::initializer_list<const char*> keys, float otherwise) const {
  for (const char* key : keys) {
    const json* value = find(key);
    if (value == nullptr) continue;
    if (!value->is_number() || !(value->get<double>() > 0) || value->get<double>() > 1e9) {
      fail(std::string("expected ") + key + " to be a number above 0, found " + shown_json(value));
    }
    return value->get<float>();
  }
  return otherwise;
}

bool ConfigJson::truth(const char* key, bool otherwise) const {
  return truth_member(name_, object_, key, otherwise);
}

std::string ConfigJson::text(const char* key, const char* otherwise) const {
  return text_member(name_, object_, key, otherwise);
}

std::vector<float> ConfigJson::numbers(const char* key) const {
  std::vector<float> values;
  const json* list = find(key);
  if (list == nullptr || !list->is_array()) fail(std::string("expected ") + key + ", a list");
  for (const json& value : *list) {
    if (!value.is_number() || !(value.get<double>() > 0)) {
      fail(std::string("expected numbers above 0 in ") + key + ", found " + shown_json(&value));
    }
    values.push_back(value.get<float>());
  }
  return values;
}

std::vector<bool> ConfigJson::layers(const char* key, const json& yes, const json& no) const {
  std::vector<bool> layers;
  const json* list = find(key);
  if (list == nullptr) return layers;
  if (!list->is_array()) fail(std::string("expected ") + key + " to be a list");
  for (const json& value : *list) {
    if (value != yes && value != no) {
      fail(std::string("expected ") + shown_json(&yes) + " or " + shown_json(&no) + " in " + key +
           ", found " + shown_json(&value));
    }
    layers.push_back(value == yes);
  }
  return layers;
}

ConfigJson ConfigJson::member(const char* key) const {
  static const json kNothing;
  const json* object = find(key);
  return {name_, object == nullptr ? kNothing : *object};
}

void ConfigJson::fail(const std::string& message) const { fail_in_file(name_, message); }

ModelConfig read_config_json(const ConfigJson& config, const ModelFamily& family) {
  ModelConfig model = start_config(family);
  StackConfig& stack = model.decoder();
  model.n_vocab = config.count({"vocab_size"});
  // Of two keys, the second is that of GPT-2 and nomic-bert.
  stack.d_model = config.count({"hidden_size", "n_embd"});
  stack.n_layers = config.count({"num_hidden_layers", "n_layer"});
  stack.d_ffn = config.count({"intermediate_size", "n_inner"});
  stack.n_heads = config.count({"num_attention_heads", "n_head"});
  stack.n_kv_heads = config.count({"num_key_value_heads"});
  stack.head_dim = config.count({"head_dim"});
  stack.n_positions = config.count({"max_position_embeddings", "n_positions"});
  stack.norm_epsilon = config.number(
      {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps"}, family.norm_epsilon);
  stack.norm_weight_offset = family.hugging_face_norm_weight_offset;
  complete_sizes(family, stack);
  family.read_config_json(config, family, model);
  if (stack.layers.empty()) set_layers(family, {}, stack, model);
  return model;
}

void read_language_model(const ConfigJson& config, const ModelFamily& family, ModelConfig& model) {
  require(config, {{"clip_qkv", nullptr}}, model);
  StackConfig& stack = model.decoder();
  if (stack.activation == Activation::kClampedSwiGlu) {
    require(config, {{"swiglu_limit", kSwiGluLimit}, {"swiglu_alpha", 1.702}}, model);
  }
  if (family.has_experts) {
    stack.experts.n = config.count({"num_local_experts", "num_experts"});
    stack.experts.n_used = config.count({"num_experts_per_tok", "experts_per_token"});
    stack.experts.d_ffn = config.count({"moe_intermediate_size", "intermediate_size"});
    stack.experts.d_shared = config.count({"shared_expert_intermediate_size"});
    stack.experts.normalizes = config.truth("norm_topk_prob", family.normalizes_experts);
  }
  LayerFacts layers;
  layers.window_rope_theta = read_rope(config, family, stack, model);
  layers.has_window = config.layers("layer_types", "sliding_attention", "full_attention");
  layers.has_rope = config.layers("no_rope_layers", 1, 0);  // 1: the layer has rope
  if (config.truth("use_sliding_window", true)) {
    layers.sliding_window = config.count({"sliding_window"});
  }
  // EmbeddingGemma: the window has both sides.
  if (config.truth("use_bidirectional_attention", false)) {
    stack.attention = AttentionKind::kBidirectional;
    if (layers.sliding_window != 0) layers.sliding_window = layers.sliding_window / 2 + 1;
  }
  set_layers(family, layers, stack, model);
  stack.attention_soft_cap = config.number({"attn_logit_softcapping"});
  stack.logit_soft_cap = config.number({"final_logit_softcapping"});
  if (const float scalar = config.number({"query_pre_attn_scalar"}); scalar > 0) {
    stack.attention_scale = 1 / std::sqrt(scalar);
  }
  if (!family.has_multipliers) return;
  set_multipliers({.embedding = config.number({"embedding_multiplier"}, 1),
                   .residual = config.number({"residual_multiplier"}, 1),
                   .attention = config.number({"attention_multiplier"}),
                   .logits = 1 / config.number({"logits_scaling"}, 1)},
                  stack);
}

void read_bert(const ConfigJson& config, const ModelFamily&, ModelConfig& model) {
  require(config,
          {{"hidden_act", "gelu"}, {"position_embedding_type", "absolute"}, {"is_decoder", false}},
          model);
}

// The position of the first token is pad_token_id + 1, so as many position embeddings are unused.
void read_roberta(const ConfigJson& config, const ModelFamily& family, ModelConfig& model) {
  read_bert(config, family, model);
  constexpr uint32_t kUsualPadding = 1, kMostPadding = 1'000'000;
  const json* padding = config.find("pad_token_id");
  if (padding != nullptr && (!padding->is_number_unsigned() || *padding >= kMostPadding)) {
    config.fail("expected pad_token_id to be a token id, found " + shown_json(padding));
  }
  StackConfig& stack = model.encoder();
  stack.first_position = (padding == nullptr ? kUsualPadding : padding->get<uint32_t>()) + 1;
  stack.n_positions -= std::min(stack.n_positions, stack.first_position);
}

// transformers computes the buckets of 32, whatever the configuration states.
void read_mpnet(const ConfigJson& config, const ModelFamily& family, ModelConfig& model) {
  read_roberta(config, family, model);
  constexpr uint32_t kBuckets = 32;
  require(config, {{"relative_attention_num_buckets", kBuckets}}, model);
  model.encoder().n_bias_buckets = kBuckets;
}

void read_jina_bert(const ConfigJson& config, const ModelFamily&, ModelConfig& model) {
  require(config, {{"hidden_act", "gelu"}, {"is_decoder", false}}, model);
  const std::string block = config.text("feed_forward_type", "original");
  if (model.unsupported.empty() && block != "geglu" && block != "original") {
    model.unsupported =
        "expected feed_forward_type \"geglu\" or \"original\", found \"" + block + "\"";
  }
}

void read_nomic_bert(const ConfigJson& config, const ModelFamily& family, ModelConfig& model) {
  require(config,
          {{"hidden_act", "silu"},
           {"activation_function", "swiglu"},
           {"prenorm", false},
           {"use_rms_norm", false},
           {"parallel_block", false},
           {"causal", false},
           {"rotary_emb_fraction", 1.0},
           {"rotary_emb_interleaved", false}},
          model);
  StackConfig& stack = model.encoder();
  // The context of the training: beyond it, positions would have to be scaled.
  const uint32_t trained = config.count({"max_trained_positions"});
  if (trained != 0) stack.n_positions = std::min(stack.n_positions, trained);
  stack.ropes = {whole_heads(stack, rope_theta(config, config.member("rope_parameters"),
                                               "rotary_emb_base", family.rope_theta))};
}

void read_new(const ConfigJson& config, const ModelFamily& family, ModelConfig& model) {
  require(config,
          {{"hidden_act", "gelu"},
           {"position_embedding_type", "rope"},
           {"layer_norm_type", "layer_norm"},
           {"logn_attention_scale", false},
           {"logn_attention_clip1", false}},
          model);
  StackConfig& stack = model.encoder();
  stack.ropes = {whole_heads(stack, config.number({"rope_theta"}, family.rope_theta))};
  if (config.find("rope_scaling") == nullptr) return;
  const ConfigJson scaling = config.member("rope_scaling");
  require(scaling, {{"type", "ntk"}, {"mixed_b", nullptr}}, model);
  const float factor = scaling.number({"factor"});
  if (factor == 0 || stack.head_dim == 0) return;
  // NTK scaling: another base, then all angles divided by the same factor.
  RopeSettings& rope = stack.ropes[0];
  rope.theta *= factor;
  rope.scaling = RopeScaling::kLinear;
  rope.factor = std::pow(factor, 2.0f / static_cast<float>(stack.head_dim));
}

void read_modern_bert(const ConfigJson& config, const ModelFamily& family, ModelConfig& model) {
  require(config, {{"hidden_activation", "gelu"}}, model);
  StackConfig& stack = model.encoder();
  const ConfigJson parameters = config.member("rope_parameters");
  stack.ropes = {whole_heads(stack, rope_theta(config, parameters.member("full_attention"),
                                               "global_rope_theta", family.rope_theta))};
  LayerFacts layers;
  layers.window_rope_theta = rope_theta(config, parameters.member("sliding_attention"),
                                        "local_rope_theta", family.window_rope_theta);
  // A window of 128 is 64 to each side, plus the position itself.
  const uint32_t both_sides = config.count({"local_attention"});
  layers.sliding_window = (both_sides == 0 ? 128 : both_sides) / 2 + 1;
  layers.window_period = config.count({"global_attn_every_n_layers"});
  layers.has_window = config.layers("layer_types", "sliding_attention", "full_attention");
  set_layers(family, layers, stack, model);
}

}  // namespace vesper

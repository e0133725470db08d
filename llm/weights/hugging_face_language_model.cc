// Language models as Hugging Face's transformers stores them: facts from config.json. The keys and
// what they mean are those of transformers' configuration classes.
#include <algorithm>
#include <cmath>

#include "error/error.h"
#include "llm/files/json_file.h"
#include "llm/weights/language_model_files.h"
#include "llm/weights/language_model_names.h"
#include "llm/weights/language_model_tensors.h"

namespace vesper {
namespace {

using nlohmann::json;

// A config.json, by its members.
class Config {
 public:
  Config(const std::string& name, const json& object) : name_(name), object_(object) {}

  const json* find(const char* key) const { return find_member(object_, key); }
  uint32_t count(const char* key) const { return count_member(name_, object_, key); }
  // A number above 0, or `otherwise`.
  float number(const char* key, float otherwise = 0) const {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number() || !(value->get<double>() > 0) || value->get<double>() > 1e9) {
      fail(std::string("expected ") + key + " to be a number above 0, found " + shown_json(value));
    }
    return value->get<float>();
  }
  bool truth(const char* key, bool otherwise) const {
    return truth_member(name_, object_, key, otherwise);
  }
  std::string text(const char* key, const char* otherwise) const {
    return text_member(name_, object_, key, otherwise);
  }
  std::vector<float> numbers(const char* key) const {
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
  // A list with an element for each layer, each one of two; empty if absent.
  std::vector<bool> layers(const char* key, const json& yes, const json& no) const {
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
  Config member(const char* key) const { return {name_, *find(key)}; }
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::kModel, name_ + ": " + message);
  }

 private:
  std::string name_;
  const json& object_;
};

void read_scaling(const Config& config, const Config& scaling, LanguageModelFacts& facts) {
  RopeSettings& rope = facts.rope;
  const std::string type = scaling.text("rope_type", scaling.text("type", "default").c_str());
  if (type == "default") return;
  rope.factor = scaling.number("factor", 1);
  rope.original_positions = scaling.count("original_max_position_embeddings");
  if (rope.original_positions == 0) {
    rope.original_positions = config.count("original_max_position_embeddings");
  }
  if (rope.original_positions == 0) rope.original_positions = facts.n_positions;
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "llama3") {
    rope.scaling = RopeScaling::kLlama3;
    rope.low_frequency = scaling.number("low_freq_factor", 1);
    rope.high_frequency = scaling.number("high_freq_factor", 4);
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    rope.beta_fast = scaling.number("beta_fast", 32);
    rope.beta_slow = scaling.number("beta_slow", 1);
    rope.truncates = scaling.truth("truncate", true);
    const float usual = rope.factor > 1 ? 0.1f * std::log(rope.factor) + 1 : 1;
    rope.magnitude = scaling.number("attention_factor", usual);
    if (scaling.find("mscale") != nullptr) facts.problem = "rope_scaling with mscale";
  } else if (type == "longrope" || type == "su") {
    facts.short_freq_factors = scaling.numbers("short_factor");
    facts.long_freq_factors = scaling.numbers("long_factor");
    // Where no factor is stated it is that of the contexts.
    const float stretch = scaling.find("factor") != nullptr
                              ? rope.factor
                              : static_cast<float>(facts.n_positions) /
                                    static_cast<float>(std::max(rope.original_positions, 1u));
    const float usual =
        stretch > 1 ? std::sqrt(1 + std::log(stretch) /
                                        std::log(static_cast<float>(rope.original_positions)))
                    : 1;
    rope.magnitude = scaling.number("attention_factor", usual);
  } else {
    facts.problem = "rope_scaling of type " + type.substr(0, 60);
  }
}

void read_rope(const Config& config, LanguageModelFacts& facts) {
  facts.rope.theta = config.number("rope_theta", 10000);
  facts.window_rope_theta = config.number("rope_local_base_freq");
  const float part = config.number("partial_rotary_factor", 1);
  facts.rope.n_pairs = static_cast<uint32_t>(static_cast<float>(facts.head_dim) * part) / 2;
  // Newer files have all of it in one object, or in one for each kind of layer.
  if (const json* parameters = config.find("rope_parameters")) {
    const bool by_kind = find_member(*parameters, "full_attention") != nullptr;
    const Config all = config.member("rope_parameters");
    const Config full = by_kind ? all.member("full_attention") : all;
    facts.rope.theta = full.number("rope_theta", facts.rope.theta);
    if (full.find("partial_rotary_factor") != nullptr) {
      facts.rope.n_pairs = static_cast<uint32_t>(static_cast<float>(facts.head_dim) *
                                                 full.number("partial_rotary_factor", 1)) /
                           2;
    }
    read_scaling(config, full, facts);
    if (by_kind && all.find("sliding_attention") != nullptr) {
      facts.window_rope_theta =
          all.member("sliding_attention").number("rope_theta", facts.window_rope_theta);
    }
  } else if (config.find("rope_scaling") != nullptr) {
    read_scaling(config, config.member("rope_scaling"), facts);
  }
}

LanguageModelFacts read_facts(const Config& config) {
  LanguageModelFacts facts;
  facts.n_vocab = config.count("vocab_size");
  facts.d_model = config.count("hidden_size");
  facts.n_layers = config.count("num_hidden_layers");
  facts.d_ffn = config.count("intermediate_size");
  facts.n_heads = config.count("num_attention_heads");
  facts.n_kv_heads = config.count("num_key_value_heads");
  if (facts.n_kv_heads == 0) facts.n_kv_heads = facts.n_heads;
  facts.head_dim = config.count("head_dim");
  if (facts.head_dim == 0 && facts.n_heads != 0) facts.head_dim = facts.d_model / facts.n_heads;
  facts.n_positions = config.count("max_position_embeddings");
  facts.norm_epsilon = config.number("rms_norm_eps");
  read_rope(config, facts);
  facts.layer_has_window = config.layers("layer_types", "sliding_attention", "full_attention");
  facts.layer_has_rope = config.layers("no_rope_layers", 1, 0);  // 1: the layer has rope
  if (config.truth("use_sliding_window", true)) facts.window = config.count("sliding_window");
  facts.attention_soft_cap = config.number("attn_logit_softcapping");
  facts.logit_soft_cap = config.number("final_logit_softcapping");
  if (const float scalar = config.number("query_pre_attn_scalar"); scalar > 0) {
    facts.attention_scale = 1 / std::sqrt(scalar);
  }
  return facts;
}

bool has_post_norms(const ModelContents& contents) {
  return std::any_of(contents.tensors.begin(), contents.tensors.end(),
                     [](const TensorView& tensor) {
                       return tensor.name.find(".pre_feedforward_layernorm.") != std::string::npos;
                     });
}

}  // namespace

void read_hugging_face_language_model(const std::string& name, const json& whole,
                                      ModelContents& contents) {
  const LanguageFamily* family = find_language_family_by_type(contents.family);
  if (family == nullptr) return;
  // A model with pictures has its language model's facts in an object of their own.
  const json* inner = find_member(whole, "text_config");
  const Config config(name, inner == nullptr ? whole : *inner);
  LanguageModelFacts& facts = contents.language_model.emplace(read_facts(config));
  facts.arch = family->arch;
  facts.norm_weight_offset = family->norm_weights_are_offset ? 1 : 0;
  for (TensorView& tensor : contents.tensors) {
    constexpr std::string_view kInner = "language_model.";
    if (tensor.name.starts_with(kInner)) tensor.name.erase(0, kInner.size());
  }
  name_language_tensors(
      has_post_norms(contents) ? kHuggingFacePostNormNaming : kHuggingFaceLanguageModelNaming,
      contents);
  // Some files hold the output matrix although it is the embedding.
  if (config.truth("tie_word_embeddings", false)) {
    std::erase_if(contents.tensors,
                  [](const TensorView& tensor) { return tensor.name == "decoder.output.weight"; });
  }
}

}  // namespace vesper

#include "llm/weights/text_encoder_model.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>

#include "error/error.h"
#include "llm/files/json_file.h"
#include "llm/weights/language_model_tensors.h"
#include "llm/weights/text_encoder_names.h"

namespace vesper {
namespace {

using nlohmann::json;

// Far above every published encoder, low enough that sizes computed from them fit 64 bits with
// room.
constexpr uint64_t kMaxTextEncoderVocabulary = 4'000'000;
constexpr uint64_t kMaxTextEncoderPositions = 1'000'000;
constexpr uint64_t kMaxTextEncoderWidth = 65536;
constexpr uint64_t kMaxTextEncoderLayers = 1024;

// What a member must be for the engine to run the model, if it is there.
struct Requirement {
  const char* key;
  json value;
};

std::string find_problem(const json& config, std::initializer_list<Requirement> requirements) {
  for (const Requirement& requirement : requirements) {
    const json* value = find_member(config, requirement.key);
    if (value == nullptr || *value == requirement.value) continue;
    return std::string("expected ") + requirement.key + " " + shown_json(&requirement.value) +
           ", found " + shown_json(value);
  }
  return {};
}

float number_member(const std::string& name, const json& config, const char* key) {
  const json* value = find_member(config, key);
  if (value == nullptr) return 0.0f;
  if (!value->is_number() || !(value->get<double>() > 0)) {
    throw Error(ErrorKind::kModel,
                name + ": expected " + key + " to be a number above 0, found " + shown_json(value));
  }
  return value->get<float>();
}

// The member of the first name that is there.
uint32_t count_of(const std::string& name, const json& config,
                  std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (find_member(config, key) != nullptr) return count_member(name, config, key);
  }
  return 0;
}

// The sizes; GPT-2's names for them are nomic-bert's.
TextEncoderHyperparameters read_sizes(const std::string& name, const json& config) {
  TextEncoderHyperparameters facts;
  facts.n_vocab = count_member(name, config, "vocab_size");
  facts.d_model = count_of(name, config, {"hidden_size", "n_embd"});
  facts.n_layers = count_of(name, config, {"num_hidden_layers", "n_layer"});
  facts.d_ffn = count_of(name, config, {"intermediate_size", "n_inner"});
  facts.n_heads = facts.n_kv_heads = count_of(name, config, {"num_attention_heads", "n_head"});
  if (facts.n_heads != 0) facts.head_dim = facts.d_model / facts.n_heads;
  facts.n_positions = count_of(name, config, {"max_position_embeddings", "n_positions"});
  for (const char* key : {"layer_norm_eps", "layer_norm_epsilon", "norm_eps"}) {
    if (facts.norm_epsilon == 0) facts.norm_epsilon = number_member(name, config, key);
  }
  return facts;
}

void read_bert(const std::string&, const json& config, TextEncoderHyperparameters& facts) {
  facts.problem = find_problem(
      config,
      {{"hidden_act", "gelu"}, {"position_embedding_type", "absolute"}, {"is_decoder", false}});
}

// Positions are counted from pad_token_id + 1 on, so that many fewer are of use.
void read_roberta(const std::string& name, const json& config, TextEncoderHyperparameters& facts) {
  read_bert(name, config, facts);
  const json* padding = find_member(config, "pad_token_id");
  constexpr uint32_t kUsual = 1;
  if (padding != nullptr &&
      (!padding->is_number_unsigned() || *padding >= kMaxTextEncoderPositions)) {
    throw Error(ErrorKind::kModel,
                name + ": expected pad_token_id to be a token id, found " + shown_json(padding));
  }
  facts.first_position = (padding == nullptr ? kUsual : padding->get<uint32_t>()) + 1;
  facts.n_positions -= std::min(facts.n_positions, facts.first_position);
}

void read_jina_bert(const std::string& name, const json& config,
                    TextEncoderHyperparameters& facts) {
  facts.alibi = true;
  facts.problem = find_problem(config, {{"hidden_act", "gelu"}, {"is_decoder", false}});
  const std::string block = text_member(name, config, "feed_forward_type", "original");
  if (facts.problem.empty() && block != "geglu" && block != "original") {
    facts.problem = "expected feed_forward_type \"geglu\" or \"original\", found \"" + block + "\"";
  }
}

// The base of the rotary angles: a member of `parameters`, an object of newer files, or of the
// config itself by an older name.
float rope_theta(const std::string& name, const json& config, const json* parameters,
                 const char* older_name, float otherwise) {
  const float stated = parameters != nullptr ? number_member(name, *parameters, "rope_theta")
                                             : number_member(name, config, older_name);
  return stated > 0 ? stated : otherwise;
}

void read_nomic_bert(const std::string& name, const json& config,
                     TextEncoderHyperparameters& facts) {
  facts.problem = find_problem(config, {{"hidden_act", "silu"},
                                        {"activation_function", "swiglu"},
                                        {"prenorm", false},
                                        {"use_rms_norm", false},
                                        {"parallel_block", false},
                                        {"causal", false},
                                        {"rotary_emb_fraction", 1.0},
                                        {"rotary_emb_interleaved", false}});
  // The context that it was trained on: beyond it the angles would have to be stretched.
  const uint32_t trained = count_member(name, config, "max_trained_positions");
  if (trained != 0) facts.n_positions = std::min(facts.n_positions, trained);
  facts.rope.n_pairs = facts.head_dim / 2;
  facts.rope.theta =
      rope_theta(name, config, find_member(config, "rope_parameters"), "rotary_emb_base", 1000);
}

void read_new(const std::string& name, const json& config, TextEncoderHyperparameters& facts) {
  facts.problem = find_problem(config, {{"hidden_act", "gelu"},
                                        {"position_embedding_type", "rope"},
                                        {"layer_norm_type", "layer_norm"},
                                        {"logn_attention_scale", false},
                                        {"logn_attention_clip1", false}});
  facts.rope.n_pairs = facts.head_dim / 2;
  facts.rope.theta = rope_theta(name, config, nullptr, "rope_theta", 10000);
  const json* scaling = find_member(config, "rope_scaling");
  if (scaling == nullptr || !facts.problem.empty()) return;
  facts.problem = find_problem(*scaling, {{"type", "ntk"}, {"mixed_b", nullptr}});
  const float factor = number_member(name, *scaling, "factor");
  if (factor == 0 || facts.head_dim == 0) return;
  // Another base, and then all angles smaller by the same.
  facts.rope.theta *= factor;
  facts.rope.scaling = RopeScaling::kLinear;
  facts.rope.factor = std::pow(factor, 2.0f / static_cast<float>(facts.head_dim));
}

void read_modern_bert(const std::string& name, const json& config,
                      TextEncoderHyperparameters& facts) {
  facts.problem = find_problem(config, {{"hidden_activation", "gelu"}});
  const json* parameters = find_member(config, "rope_parameters");
  const json* global = nullptr;
  const json* local = nullptr;
  if (parameters != nullptr) {
    global = find_member(*parameters, "full_attention");
    local = find_member(*parameters, "sliding_attention");
  }
  facts.rope.n_pairs = facts.head_dim / 2;
  facts.rope.theta = rope_theta(name, config, global, "global_rope_theta", 160000);
  facts.window_rope_theta = rope_theta(name, config, local, "local_rope_theta", 10000);
  // A window of 128 is 64 to each side, and the position itself.
  const uint32_t both_sides = count_member(name, config, "local_attention");
  facts.window = (both_sides == 0 ? 128 : both_sides) / 2 + 1;
  const uint32_t stated = count_member(name, config, "global_attn_every_n_layers");
  const uint32_t period = stated == 0 ? 3 : stated;
  const json* types = find_member(config, "layer_types");
  if (types != nullptr && (!types->is_array() || types->size() != facts.n_layers)) {
    facts.problem = "layer_types that are not those of each layer";
    return;
  }
  for (uint32_t i = 0; i < std::min<uint64_t>(facts.n_layers, kMaxTextEncoderLayers); ++i) {
    facts.layer_has_window.push_back(types != nullptr ? (*types)[i] == "sliding_attention"
                                                      : i % period != 0);
  }
}

// A family of text encoders: config.json's model_type, and its position_embedding_type where that
// tells families apart, the row of llm/config/arch_descriptor, how its tensors are named, and what
// reads the facts that not every family has.
struct TextEncoderFamily {
  const char* model_type;
  const char* positions;  // null: any
  const char* arch;
  const TensorNaming* naming;
  void (*read)(const std::string& name, const json& config, TextEncoderHyperparameters& facts);
};
constexpr TextEncoderFamily kTextEncoderFamilies[] = {
    {"bert", "alibi", "bert", &kHuggingFaceJinaBertNaming, read_jina_bert},
    {"bert", nullptr, "bert", &kHuggingFaceBertNaming, read_bert},
    {"roberta", nullptr, "bert", &kHuggingFaceRobertaNaming, read_roberta},
    {"xlm-roberta", nullptr, "bert", &kHuggingFaceRobertaNaming, read_roberta},
    {"camembert", nullptr, "bert", &kHuggingFaceRobertaNaming, read_roberta},
    {"new", nullptr, "bert", &kHuggingFaceNewNaming, read_new},
    {"nomic_bert", nullptr, "nomic-bert", &kHuggingFaceNomicBertNaming, read_nomic_bert},
    {"modernbert", nullptr, "modernbert", &kHuggingFaceModernBertNaming, read_modern_bert},
};

class TextEncoderChecker {
 public:
  explicit TextEncoderChecker(const WeightProvider& provider)
      : provider_(provider), facts_(provider.text_encoder()) {}

  void run() const {
    if (!facts_.problem.empty()) fail(facts_.problem);
    check_range("vocab_size", facts_.n_vocab, kMaxTextEncoderVocabulary);
    check_range("hidden_size", facts_.d_model, kMaxTextEncoderWidth);
    check_range("intermediate_size", facts_.d_ffn, kMaxTextEncoderWidth);
    check_range("num_hidden_layers", facts_.n_layers, kMaxTextEncoderLayers);
    check_range("num_attention_heads", facts_.n_heads, kMaxTextEncoderWidth);
    check_range("max_position_embeddings", facts_.n_positions, kMaxTextEncoderPositions);
    if (facts_.head_dim * facts_.n_heads != facts_.d_model) {
      fail("expected num_attention_heads that divide hidden_size " +
           std::to_string(facts_.d_model) + ", found " + std::to_string(facts_.n_heads));
    }
    const uint64_t d = facts_.d_model;
    const bool norms_before = provider_.find("encoder.norm.weight") != nullptr;
    check("encoder.embed.weight", {facts_.n_vocab, d});
    if (facts_.rope.n_pairs == 0 && !facts_.alibi) {
      check("encoder.position.weight", {uint64_t{facts_.first_position} + facts_.n_positions, d});
    } else if (facts_.rope.n_pairs != 0 && facts_.head_dim % 2 != 0) {
      fail("expected heads of an even size, whose halves can be turned, found " +
           std::to_string(facts_.head_dim));
    }
    if (const TensorView* types = provider_.find("encoder.token_type.weight")) {
      check(types->name, {types->shape.empty() ? 1 : std::max<uint64_t>(types->shape[0], 1), d});
    }
    check_norm("encoder.embed_norm");
    for (uint32_t n = 0; n < facts_.n_layers; ++n) {
      const std::string layer = "encoder.layers." + std::to_string(n);
      for (const char* part : {".attn.q", ".attn.k", ".attn.v", ".attn.out"}) {
        check_linear(layer + part, d, d);
      }
      if (provider_.find(layer + ".ffn.gate.weight") != nullptr) {
        check_linear(layer + ".ffn.gate", facts_.d_ffn, d);
      }
      check_linear(layer + ".ffn.up", facts_.d_ffn, d);
      check_linear(layer + ".ffn.down", d, facts_.d_ffn);
      // The first block of ModernBERT follows the embedding's norm and has none of its own.
      if (!norms_before || n > 0) check_norm(layer + ".attn_norm");
      check_norm(layer + ".ffn_norm");
    }
    if (norms_before) check_norm("encoder.norm");
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::kModel, provider_.path().string() + ": " + message);
  }

  void check_range(const char* fact, uint64_t value, uint64_t limit) const {
    if (value >= 1 && value <= limit) return;
    fail(std::string("expected ") + fact + " between 1 and " + std::to_string(limit) + ", found " +
         std::to_string(value));
  }

  void check(const std::string& name, const std::vector<uint64_t>& shape) const {
    check_tensor(provider_.path().string(), provider_.require(name), shape);
  }

  void check_linear(const std::string& stem, uint64_t out, uint64_t in) const {
    check(stem + ".weight", {out, in});
    if (provider_.find(stem + ".bias") != nullptr) check(stem + ".bias", {out});
  }

  void check_norm(const std::string& stem) const {
    check(stem + ".weight", {facts_.d_model});
    if (provider_.find(stem + ".bias") != nullptr) check(stem + ".bias", {facts_.d_model});
  }

  const WeightProvider& provider_;
  const TextEncoderHyperparameters& facts_;
};

}  // namespace

void read_hugging_face_text_encoder(const std::string& name, const json& config,
                                    ModelContents& contents) {
  const json* positions = find_member(config, "position_embedding_type");
  const auto* family = std::find_if(
      std::begin(kTextEncoderFamilies), std::end(kTextEncoderFamilies),
      [&](const TextEncoderFamily& row) {
        return contents.family == row.model_type &&
               (row.positions == nullptr || (positions != nullptr && *positions == row.positions));
      });
  if (family == std::end(kTextEncoderFamilies)) return;
  contents.text_encoder = read_sizes(name, config);
  contents.text_encoder->arch = family->arch;
  family->read(name, config, *contents.text_encoder);
  name_text_encoder_tensors(*family->naming, contents);
}

void name_text_encoder_tensors(const TensorNaming& naming, ModelContents& contents) {
  std::vector<TensorView> named;
  named.reserve(contents.tensors.size());
  for (TensorView& tensor : contents.tensors) {
    const std::vector<std::string> names = canonical_names(naming, tensor.file_name);
    if (names.size() > 1 && !tensor.shape.empty() && tensor.shape[0] % names.size() == 0) {
      const std::vector<uint64_t> rows(names.size(), tensor.shape[0] / names.size());
      std::vector<TensorView> parts = cut_tensor(tensor, names, rows);
      std::move(parts.begin(), parts.end(), std::back_inserter(named));
      if (!parts.empty()) continue;
    } else if (names.size() == 1) {
      tensor.name = names[0];
    }
    named.push_back(std::move(tensor));
  }
  contents.tensors = std::move(named);
  for (UnreadableTensor& tensor : contents.unreadable) {
    const std::vector<std::string> names = canonical_names(naming, tensor.name);
    if (names.size() == 1) tensor.name = names[0];
  }
}

void check_text_encoder(const WeightProvider& provider) { TextEncoderChecker(provider).run(); }

}  // namespace vesper

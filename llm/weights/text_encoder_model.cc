#include "llm/weights/text_encoder_model.h"

#include <algorithm>

#include "error/error.h"
#include "llm/weights/json_file.h"
#include "llm/weights/text_encoder_names.h"

namespace vesper {
namespace {

using nlohmann::json;

// Far above every published encoder, low enough that sizes computed from them fit 64 bits with
// room.
constexpr uint64_t kMaxVocabulary = 4'000'000;
constexpr uint64_t kMaxPositions = 1'000'000;
constexpr uint64_t kMaxWidth = 65536;
constexpr uint64_t kMaxLayers = 1024;

// A family of text encoders: config.json's model_type, the row of llm/arch_descriptor, and how its
// tensors are named.
struct Family {
  const char* model_type;
  const char* arch;
  const TensorNaming* naming;
  // Positions are counted from pad_token_id + 1 on, so that many fewer are of use.
  bool positions_follow_padding;
};
constexpr Family kFamilies[] = {
    {"bert", "bert", &kHuggingFaceBertNaming, false},
    {"roberta", "bert", &kHuggingFaceRobertaNaming, true},
    {"xlm-roberta", "bert", &kHuggingFaceRobertaNaming, true},
    {"camembert", "bert", &kHuggingFaceRobertaNaming, true},
};

std::string shown(const json& value) { return value.dump(-1, ' ', true).substr(0, 60); }

// What a member must be for the engine to run the model, if it is there.
struct Requirement {
  const char* key;
  json value;
};

std::string find_problem(const json& config) {
  const Requirement requirements[] = {
      {"hidden_act", "gelu"},
      {"position_embedding_type", "absolute"},
      {"is_decoder", false},
  };
  for (const Requirement& requirement : requirements) {
    const json* value = find_member(config, requirement.key);
    if (value == nullptr || *value == requirement.value) continue;
    return std::string("expected ") + requirement.key + " " + shown(requirement.value) +
           ", found " + shown(*value);
  }
  return {};
}

float number_member(const std::string& name, const json& config, const char* key) {
  const json* value = find_member(config, key);
  if (value == nullptr) return 0.0f;
  if (!value->is_number() || !(value->get<double>() > 0)) {
    throw Error(ErrorKind::kModel,
                name + ": expected " + key + " to be a number above 0, found " + shown(*value));
  }
  return value->get<float>();
}

TextEncoderHyperparameters read_facts(const std::string& name, const json& config) {
  TextEncoderHyperparameters facts;
  facts.n_vocab = count_member(name, config, "vocab_size");
  facts.d_model = count_member(name, config, "hidden_size");
  facts.n_layers = count_member(name, config, "num_hidden_layers");
  facts.d_ffn = count_member(name, config, "intermediate_size");
  facts.n_heads = facts.n_kv_heads = count_member(name, config, "num_attention_heads");
  if (facts.n_heads != 0) facts.head_dim = facts.d_model / facts.n_heads;
  facts.n_positions = count_member(name, config, "max_position_embeddings");
  facts.norm_epsilon = number_member(name, config, "layer_norm_eps");
  facts.problem = find_problem(config);
  return facts;
}

void skip_positions(const std::string& name, const json& config,
                    TextEncoderHyperparameters& facts) {
  const json* padding = find_member(config, "pad_token_id");
  constexpr uint32_t kUsual = 1;
  if (padding != nullptr && (!padding->is_number_unsigned() || *padding >= kMaxPositions)) {
    throw Error(ErrorKind::kModel,
                name + ": expected pad_token_id to be a token id, found " + shown(*padding));
  }
  facts.first_position = (padding == nullptr ? kUsual : padding->get<uint32_t>()) + 1;
  facts.n_positions -= std::min(facts.n_positions, facts.first_position);
}

class Checker {
 public:
  explicit Checker(const WeightProvider& provider)
      : provider_(provider), facts_(provider.text_encoder()) {}

  void run() const {
    if (!facts_.problem.empty()) fail(facts_.problem);
    check_range("vocab_size", facts_.n_vocab, kMaxVocabulary);
    check_range("hidden_size", facts_.d_model, kMaxWidth);
    check_range("intermediate_size", facts_.d_ffn, kMaxWidth);
    check_range("num_hidden_layers", facts_.n_layers, kMaxLayers);
    check_range("num_attention_heads", facts_.n_heads, kMaxWidth);
    check_range("max_position_embeddings", facts_.n_positions, kMaxPositions);
    if (facts_.head_dim * facts_.n_heads != facts_.d_model) {
      fail("expected num_attention_heads that divide hidden_size " +
           std::to_string(facts_.d_model) + ", found " + std::to_string(facts_.n_heads));
    }
    const uint64_t d = facts_.d_model;
    check("encoder.embed.weight", {facts_.n_vocab, d});
    check("encoder.position.weight", {uint64_t{facts_.first_position} + facts_.n_positions, d});
    if (const TensorView* types = provider_.find("encoder.token_type.weight")) {
      check(types->name, {types->shape.empty() ? 1 : std::max<uint64_t>(types->shape[0], 1), d});
    }
    check_norm("encoder.embed_norm");
    for (uint32_t n = 0; n < facts_.n_layers; ++n) {
      const std::string layer = "encoder.layers." + std::to_string(n);
      for (const char* part : {".attn.q", ".attn.k", ".attn.v", ".attn.out"}) {
        check_linear(layer + part, d, d);
      }
      check_linear(layer + ".ffn.up", facts_.d_ffn, d);
      check_linear(layer + ".ffn.down", d, facts_.d_ffn);
      check_norm(layer + ".attn_norm");
      check_norm(layer + ".ffn_norm");
    }
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
  const auto* family =
      std::find_if(std::begin(kFamilies), std::end(kFamilies),
                   [&](const Family& row) { return contents.family == row.model_type; });
  if (family == std::end(kFamilies)) return;
  const auto rename = [&](std::string& tensor_name, const std::string& file_name) {
    auto names = canonical_names(*family->naming, file_name);
    if (!names.empty()) tensor_name = std::move(names.front());
  };
  for (TensorView& tensor : contents.tensors) rename(tensor.name, tensor.file_name);
  for (UnreadableTensor& tensor : contents.unreadable) rename(tensor.name, tensor.name);
  contents.text_encoder = read_facts(name, config);
  contents.text_encoder->arch = family->arch;
  if (family->positions_follow_padding) skip_positions(name, config, *contents.text_encoder);
}

void check_text_encoder(const WeightProvider& provider) { Checker(provider).run(); }

}  // namespace vesper

// Language models in GGUF: facts from the metadata, as ggml's documentation of GGUF names them.
#include <cmath>

#include "llm/files/gguf_metadata.h"
#include "llm/weights/language_model_files.h"
#include "llm/weights/language_model_names.h"
#include "llm/weights/language_model_tensors.h"

namespace vesper {
namespace {

void read_rope(const GgufMetadata& metadata, LanguageModelFacts& facts) {
  RopeSettings& rope = facts.rope;
  if (const float theta = metadata.number("rope.freq_base"); theta > 0) rope.theta = theta;
  const uint32_t turned = metadata.count("rope.dimension_count");
  rope.n_pairs = (turned != 0 ? turned : facts.head_dim) / 2;
  const std::string type = metadata.text("rope.scaling.type");
  if (const float factor = metadata.number("rope.scaling.factor"); factor > 0) {
    rope.factor = factor;
  }
  rope.original_positions = metadata.count("rope.scaling.original_context_length");
  if (rope.original_positions == 0) rope.original_positions = facts.n_positions;
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    rope.magnitude = 0.1f * std::log(rope.factor) + 1;
  } else if (!type.empty() && type != "none" && type != "longrope") {
    facts.problem = "rope scaling of type " + type.substr(0, 60);
  }
  if (const float magnitude = metadata.number("rope.scaling.attn_factor"); magnitude > 0) {
    rope.magnitude *= magnitude;
  }
}

LanguageModelFacts read_facts(const GgufMetadata& metadata) {
  LanguageModelFacts facts;
  facts.n_vocab = metadata.count("vocab_size");
  facts.d_model = metadata.count("embedding_length");
  facts.n_layers = metadata.count("block_count");
  facts.d_ffn = metadata.count("feed_forward_length");
  facts.n_heads = metadata.count("attention.head_count");
  facts.n_kv_heads = metadata.count("attention.head_count_kv");
  if (facts.n_kv_heads == 0) facts.n_kv_heads = facts.n_heads;
  facts.head_dim = metadata.count("attention.key_length");
  if (facts.head_dim == 0 && facts.n_heads != 0) facts.head_dim = facts.d_model / facts.n_heads;
  facts.n_positions = metadata.count("context_length");
  facts.norm_epsilon = metadata.number("attention.layer_norm_rms_epsilon");
  facts.window = metadata.count("attention.sliding_window");
  facts.attention_soft_cap = metadata.number("attn_logit_softcapping");
  facts.logit_soft_cap = metadata.number("final_logit_softcapping");
  read_rope(metadata, facts);
  return facts;
}

std::vector<float> take_freq_factors(const ModelContents& contents, const char* name) {
  for (const TensorView& tensor : contents.tensors) {
    if (tensor.name == name && tensor.dtype == DType::kF32) return read_f32(tensor);
  }
  return {};
}

}  // namespace

void read_gguf_language_model(const std::string& name, const Gguf& gguf, ModelContents& contents) {
  const LanguageFamily* family = find_language_family_by_architecture(contents.family);
  if (family == nullptr) return;
  const GgufMetadata metadata(name, gguf, contents.family + ".");
  LanguageModelFacts& facts = contents.language_model.emplace(read_facts(metadata));
  facts.arch = family->arch;
  facts.interleaved_rope = family->gguf_is_interleaved;
  name_language_tensors(kGgufLanguageModelNaming, contents);
  facts.rope.freq_factors = take_freq_factors(contents, "decoder.rope_divisors.weight");
  facts.short_freq_factors = take_freq_factors(contents, "decoder.rope_short_divisors.weight");
  facts.long_freq_factors = take_freq_factors(contents, "decoder.rope_long_divisors.weight");
  // The metadata do not say that the largest of Gemma 2 and 3 scale by d_model / n_heads.
  const bool is_largest = (facts.arch == "gemma2" && facts.n_layers == 46) ||
                          (facts.arch == "gemma3" && facts.n_layers == 62);
  if (is_largest && facts.n_heads != 0 && facts.d_model != 0) {
    facts.attention_scale =
        std::sqrt(static_cast<float>(facts.n_heads) / static_cast<float>(facts.d_model));
  }
  // The vocabulary is as long as the embedding where it is not stated.
  for (const TensorView& tensor : contents.tensors) {
    if (facts.n_vocab == 0 && tensor.name == "decoder.embed.weight" && tensor.shape.size() == 2 &&
        tensor.shape[0] <= UINT32_MAX) {
      facts.n_vocab = static_cast<uint32_t>(tensor.shape[0]);
    }
  }
}

}  // namespace vesper

// Models that encode text in GGUF: facts from the metadata, as llama.cpp's converter writes them.
#include <algorithm>

#include "llm/files/gguf_metadata.h"
#include "llm/weights/text_encoder_model.h"
#include "llm/weights/text_encoder_names.h"

namespace vesper {
namespace {

// A family: general.architecture, the row of llm/config/arch_descriptor, how its tensors are named,
// and whether positions turn queries and keys (by `theta` where the file states no base, by
// `window_theta` in layers with a window) instead of having vectors.
struct GgufEncoderFamily {
  const char* architecture;
  const char* arch;
  const TensorNaming* naming;
  bool has_rope;
  float theta, window_theta;
};
constexpr GgufEncoderFamily kGgufEncoderFamilies[] = {
    {"bert", "bert", &kGgufTextEncoderNaming, false, 0, 0},
    {"nomic-bert", "nomic-bert", &kGgufTextEncoderNaming, true, 1000, 0},
    {"modern-bert", "modernbert", &kGgufModernBertNaming, true, 160000, 10000},
};

// Every n-th layer, the first one among them, looks at all rows, the others through a window, of
// which half is to each side.
void read_windows(const GgufMetadata& metadata, float theta, TextEncoderHyperparameters& facts) {
  constexpr uint32_t kUsualPeriod = 3, kMostLayers = 1024;
  const uint32_t both_sides = metadata.count("attention.sliding_window");
  if (both_sides == 0) return;
  facts.window = both_sides / 2 + 1;
  const float stated = metadata.number("rope.freq_base_swa");
  facts.window_rope_theta = stated > 0 ? stated : theta;
  const uint32_t period = metadata.count("attention.sliding_window_pattern");
  for (uint32_t i = 0; i < std::min(facts.n_layers, kMostLayers); ++i) {
    facts.layer_has_window.push_back(i % (period == 0 ? kUsualPeriod : period) != 0);
  }
}

}  // namespace

void read_gguf_text_encoder(const std::string& name, const Gguf& gguf, ModelContents& contents) {
  for (const GgufEncoderFamily& family : kGgufEncoderFamilies) {
    if (contents.family != family.architecture) continue;
    const GgufMetadata metadata(name, gguf, contents.family + ".");
    TextEncoderHyperparameters& facts = contents.text_encoder.emplace();
    facts.arch = family.arch;
    facts.d_model = metadata.count("embedding_length");
    facts.n_layers = metadata.count("block_count");
    facts.d_ffn = metadata.count("feed_forward_length");
    facts.n_heads = facts.n_kv_heads = metadata.count("attention.head_count");
    if (facts.n_heads != 0) facts.head_dim = facts.d_model / facts.n_heads;
    facts.n_positions = metadata.count("context_length");
    facts.norm_epsilon = metadata.number("attention.layer_norm_epsilon");
    if (family.has_rope) {
      const float theta = metadata.number("rope.freq_base");
      facts.rope.n_pairs = facts.head_dim / 2;
      facts.rope.theta = theta > 0 ? theta : family.theta;
    }
    if (family.window_theta > 0) read_windows(metadata, family.window_theta, facts);
    name_text_encoder_tensors(*family.naming, contents);
    // The vocabulary is as long as the embedding.
    for (const TensorView& tensor : contents.tensors) {
      if (tensor.name == "encoder.embed.weight" && tensor.shape.size() == 2 &&
          tensor.shape[0] <= UINT32_MAX) {
        facts.n_vocab = static_cast<uint32_t>(tensor.shape[0]);
      }
    }
    return;
  }
}

}  // namespace vesper

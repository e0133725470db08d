// Models that encode text in GGUF: facts from the metadata, as llama.cpp's converter writes them.
#include "llm/weights/gguf_metadata.h"
#include "llm/weights/text_encoder_model.h"
#include "llm/weights/text_encoder_names.h"

namespace vesper {
namespace {

// A family: general.architecture, the row of llm/arch_descriptor, and whether positions turn
// queries and keys (by `theta` where the file states no base) instead of having vectors.
struct GgufEncoderFamily {
  const char* architecture;
  const char* arch;
  bool has_rope;
  float theta;
};
constexpr GgufEncoderFamily kGgufEncoderFamilies[] = {
    {"bert", "bert", false, 0},
    {"nomic-bert", "nomic-bert", true, 1000},
};

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
    name_text_encoder_tensors(kGgufTextEncoderNaming, contents);
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

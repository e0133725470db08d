#include "llm/weights/text_encoder_names.h"

namespace vesper {

namespace {

// RoBERTa's tensors are BERT's behind another prefix.
TensorNaming bert_naming(std::string_view prefix) {
  return {
      '.',
      prefix,
      {},
      {{"embeddings.word_embeddings", "encoder.embed"},
       {"embeddings.position_embeddings", "encoder.position"},
       {"embeddings.token_type_embeddings", "encoder.token_type"},
       {"embeddings.LayerNorm", "encoder.embed_norm"}},
      {{"encoder.layer.", "encoder.layers."}},
      {{"attention.self.query", "attn.q"},
       {"attention.self.key", "attn.k"},
       {"attention.self.value", "attn.v"},
       {"attention.output.dense", "attn.out"},
       {"attention.output.LayerNorm", "attn_norm"},
       {"intermediate.dense", "ffn.up"},
       {"output.dense", "ffn.down"},
       {"output.LayerNorm", "ffn_norm"}},
      // Files converted from TensorFlow have gamma and beta.
      {{"weight", "weight"}, {"bias", "bias"}, {"gamma", "weight"}, {"beta", "bias"}},
  };
}

}  // namespace

const TensorNaming kHuggingFaceBertNaming = bert_naming("bert.");
const TensorNaming kHuggingFaceRobertaNaming = bert_naming("roberta.");

}  // namespace vesper

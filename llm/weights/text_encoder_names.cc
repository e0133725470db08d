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

// BERT's but for the feed-forward block, whose gate stands above its rows in one matrix.
const TensorNaming kHuggingFaceJinaBertNaming = [] {
  TensorNaming naming = bert_naming("bert.");
  naming.layer_stems.insert(naming.layer_stems.end(), {{"mlp.gated_layers", "ffn.gate|ffn.up"},
                                                       {"mlp.wo", "ffn.down"},
                                                       {"mlp.layernorm", "ffn_norm"}});
  return naming;
}();

const TensorNaming kHuggingFaceNewNaming = {
    '.',
    "new.",
    {},
    {{"embeddings.word_embeddings", "encoder.embed"},
     {"embeddings.token_type_embeddings", "encoder.token_type"},
     {"embeddings.LayerNorm", "encoder.embed_norm"}},
    {{"encoder.layer.", "encoder.layers."}},
    {{"attention.qkv_proj", "attn.q|attn.k|attn.v"},
     {"attention.q_proj", "attn.q"},
     {"attention.k_proj", "attn.k"},
     {"attention.v_proj", "attn.v"},
     {"attention.o_proj", "attn.out"},
     {"attn_ln", "attn_norm"},
     {"mlp.up_gate_proj", "ffn.up|ffn.gate"},
     {"mlp.down_proj", "ffn.down"},
     {"mlp_ln", "ffn_norm"}},
    {{"weight", "weight"}, {"bias", "bias"}},
};

// As its authors published it, and as transformers has it since.
const TensorNaming kHuggingFaceNomicBertNaming = {
    '.',
    "bert.",
    {},
    {{"embeddings.word_embeddings", "encoder.embed"},
     {"embeddings.token_type_embeddings", "encoder.token_type"},
     {"emb_ln", "encoder.embed_norm"},
     {"embeddings.LayerNorm", "encoder.embed_norm"}},
    {{"encoder.layers.", "encoder.layers."}, {"layers.", "encoder.layers."}},
    {{"attn.Wqkv", "attn.q|attn.k|attn.v"},
     {"attn.out_proj", "attn.out"},
     {"norm1", "attn_norm"},
     {"mlp.fc11", "ffn.up"},
     {"mlp.fc12", "ffn.gate"},
     {"mlp.fc2", "ffn.down"},
     {"norm2", "ffn_norm"},
     {"self_attn.q_proj", "attn.q"},
     {"self_attn.k_proj", "attn.k"},
     {"self_attn.v_proj", "attn.v"},
     {"self_attn.o_proj", "attn.out"},
     {"post_attention_layernorm", "attn_norm"},
     {"mlp.up_proj", "ffn.up"},
     {"mlp.gate_proj", "ffn.gate"},
     {"mlp.down_proj", "ffn.down"},
     {"post_mlp_layernorm", "ffn_norm"}},
    {{"weight", "weight"}, {"bias", "bias"}},
};

const TensorNaming kHuggingFaceModernBertNaming = {
    '.',
    "model.",
    {},
    {{"embeddings.tok_embeddings", "encoder.embed"},
     {"embeddings.norm", "encoder.embed_norm"},
     {"final_norm", "encoder.norm"}},
    {{"layers.", "encoder.layers."}},
    {{"attn_norm", "attn_norm"},
     {"attn.Wqkv", "attn.q|attn.k|attn.v"},
     {"attn.Wo", "attn.out"},
     {"mlp_norm", "ffn_norm"},
     {"mlp.Wi", "ffn.gate|ffn.up"},
     {"mlp.Wo", "ffn.down"}},
    {{"weight", "weight"}, {"bias", "bias"}},
};

const TensorNaming kGgufTextEncoderNaming = {
    '.',
    "",
    {},
    {{"token_embd", "encoder.embed"},
     {"position_embd", "encoder.position"},
     {"token_types", "encoder.token_type"},
     {"token_embd_norm", "encoder.embed_norm"}},
    {{"blk.", "encoder.layers."}},
    {{"attn_q", "attn.q"},
     {"attn_k", "attn.k"},
     {"attn_v", "attn.v"},
     {"attn_qkv", "attn.q|attn.k|attn.v"},
     {"attn_output", "attn.out"},
     {"attn_output_norm", "attn_norm"},
     {"ffn_gate", "ffn.gate"},
     {"ffn_up", "ffn.up"},
     {"ffn_down", "ffn.down"},
     {"layer_output_norm", "ffn_norm"}},
    {{"weight", "weight"}, {"bias", "bias"}},
};

// Norms stand before what they are for, and ffn_up has the gate above it.
const TensorNaming kGgufModernBertNaming = {
    '.',
    "",
    {},
    {{"token_embd", "encoder.embed"},
     {"token_embd_norm", "encoder.embed_norm"},
     {"output_norm", "encoder.norm"}},
    {{"blk.", "encoder.layers."}},
    {{"attn_norm", "attn_norm"},
     {"attn_q", "attn.q"},
     {"attn_k", "attn.k"},
     {"attn_v", "attn.v"},
     {"attn_qkv", "attn.q|attn.k|attn.v"},
     {"attn_output", "attn.out"},
     {"ffn_norm", "ffn_norm"},
     {"ffn_up", "ffn.gate|ffn.up"},
     {"ffn_down", "ffn.down"}},
    {{"weight", "weight"}, {"bias", "bias"}},
};

}  // namespace vesper

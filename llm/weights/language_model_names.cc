#include "llm/weights/language_model_names.h"

namespace vesper {

namespace {

TensorNaming hugging_face_naming(std::vector<TensorNaming::Row> norms) {
  TensorNaming naming = {
      '.',
      "model.",
      {},
      {{"embed_tokens", "decoder.embed"}, {"norm", "decoder.norm"}, {"lm_head", "decoder.output"}},
      {{"layers.", "decoder.layers."}},
      {{"self_attn.q_proj", "attn.q"},
       {"self_attn.k_proj", "attn.k"},
       {"self_attn.v_proj", "attn.v"},
       {"self_attn.qkv_proj", "attn.q|attn.k|attn.v"},
       {"self_attn.o_proj", "attn.out"},
       {"self_attn.q_norm", "attn.q_norm"},
       {"self_attn.k_norm", "attn.k_norm"},
       {"mlp.gate_proj", "ffn.gate"},
       {"mlp.up_proj", "ffn.up"},
       {"mlp.gate_up_proj", "ffn.gate|ffn.up"},
       {"mlp.down_proj", "ffn.down"},
       {"input_layernorm", "attn_norm"}},
      {{"weight", "weight"}, {"bias", "bias"}},
  };
  naming.layer_stems.insert(naming.layer_stems.end(), norms.begin(), norms.end());
  return naming;
}

}  // namespace

const TensorNaming kHuggingFaceLanguageModelNaming =
    hugging_face_naming({{"post_attention_layernorm", "ffn_norm"}});

const TensorNaming kHuggingFacePostNormNaming =
    hugging_face_naming({{"post_attention_layernorm", "attn_post_norm"},
                         {"pre_feedforward_layernorm", "ffn_norm"},
                         {"post_feedforward_layernorm", "ffn_post_norm"}});

const TensorNaming kGgufLanguageModelNaming = {
    '.',
    "",
    {},
    {{"token_embd", "decoder.embed"},
     {"output_norm", "decoder.norm"},
     {"output", "decoder.output"},
     {"rope_freqs", "decoder.rope_divisors"},
     {"rope_factors_short", "decoder.rope_short_divisors"},
     {"rope_factors_long", "decoder.rope_long_divisors"}},
    {{"blk.", "decoder.layers."}},
    {{"attn_norm", "attn_norm"},
     {"attn_q", "attn.q"},
     {"attn_k", "attn.k"},
     {"attn_v", "attn.v"},
     {"attn_qkv", "attn.q|attn.k|attn.v"},
     {"attn_output", "attn.out"},
     {"attn_q_norm", "attn.q_norm"},
     {"attn_k_norm", "attn.k_norm"},
     {"post_attention_norm", "attn_post_norm"},
     {"ffn_norm", "ffn_norm"},
     {"ffn_gate", "ffn.gate"},
     {"ffn_up", "ffn.up"},
     {"ffn_down", "ffn.down"},
     {"post_ffw_norm", "ffn_post_norm"}},
    {{"weight", "weight"}, {"bias", "bias"}},
};

}  // namespace vesper

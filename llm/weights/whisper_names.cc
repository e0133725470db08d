#include "llm/weights/whisper_names.h"

namespace vesper {
namespace {

const std::vector<TensorNaming::Row> kWeightAndBias = {{"weight", "weight"}, {"bias", "bias"}};

}  // namespace

const TensorNaming kCTranslate2WhisperNaming = {
    '/',
    "",
    {{"encoder/position_encodings/encodings", "encoder.position.weight"},
     {"decoder/position_encodings/encodings", "decoder.position.weight"}},
    {{"encoder/conv1", "encoder.conv1"},
     {"encoder/conv2", "encoder.conv2"},
     {"encoder/layer_norm", "encoder.norm"},
     {"decoder/layer_norm", "decoder.norm"},
     {"decoder/embeddings", "decoder.embed"},
     {"decoder/projection", "decoder.output"}},
    {{"encoder/layer_", "encoder.layers."}, {"decoder/layer_", "decoder.layers."}},
    {{"self_attention/layer_norm", "attn_norm"},
     {"self_attention/linear_0", "attn.q|attn.k|attn.v"},
     {"self_attention/linear_1", "attn.out"},
     {"attention/layer_norm", "cross_norm"},
     {"attention/linear_0", "cross.q"},
     {"attention/linear_1", "cross.k|cross.v"},
     {"attention/linear_2", "cross.out"},
     {"ffn/layer_norm", "ffn_norm"},
     {"ffn/linear_0", "ffn.up"},
     {"ffn/linear_1", "ffn.down"}},
    {{"weight", "weight"}, {"bias", "bias"}, {"gamma", "weight"}, {"beta", "bias"}},
};

const TensorNaming kGgmlWhisperNaming = {
    '.',
    "",
    {{"encoder.positional_embedding", "encoder.position.weight"},
     {"decoder.positional_embedding", "decoder.position.weight"}},
    {{"encoder.conv1", "encoder.conv1"},
     {"encoder.conv2", "encoder.conv2"},
     {"encoder.ln_post", "encoder.norm"},
     {"decoder.ln", "decoder.norm"},
     {"decoder.token_embedding", "decoder.embed"}},
    {{"encoder.blocks.", "encoder.layers."}, {"decoder.blocks.", "decoder.layers."}},
    {{"attn_ln", "attn_norm"},
     {"attn.query", "attn.q"},
     {"attn.key", "attn.k"},
     {"attn.value", "attn.v"},
     {"attn.out", "attn.out"},
     {"cross_attn_ln", "cross_norm"},
     {"cross_attn.query", "cross.q"},
     {"cross_attn.key", "cross.k"},
     {"cross_attn.value", "cross.v"},
     {"cross_attn.out", "cross.out"},
     {"mlp_ln", "ffn_norm"},
     {"mlp.0", "ffn.up"},
     {"mlp.2", "ffn.down"}},
    kWeightAndBias,
};

const TensorNaming kHuggingFaceWhisperNaming = {
    '.',
    "model.",
    {},
    {{"encoder.conv1", "encoder.conv1"},
     {"encoder.conv2", "encoder.conv2"},
     {"encoder.embed_positions", "encoder.position"},
     {"decoder.embed_positions", "decoder.position"},
     {"encoder.layer_norm", "encoder.norm"},
     {"decoder.layer_norm", "decoder.norm"},
     {"decoder.embed_tokens", "decoder.embed"},
     {"proj_out", "decoder.output"}},
    {{"encoder.layers.", "encoder.layers."}, {"decoder.layers.", "decoder.layers."}},
    {{"self_attn_layer_norm", "attn_norm"},
     {"self_attn.q_proj", "attn.q"},
     {"self_attn.k_proj", "attn.k"},
     {"self_attn.v_proj", "attn.v"},
     {"self_attn.out_proj", "attn.out"},
     {"encoder_attn_layer_norm", "cross_norm"},
     {"encoder_attn.q_proj", "cross.q"},
     {"encoder_attn.k_proj", "cross.k"},
     {"encoder_attn.v_proj", "cross.v"},
     {"encoder_attn.out_proj", "cross.out"},
     {"final_layer_norm", "ffn_norm"},
     {"fc1", "ffn.up"},
     {"fc2", "ffn.down"}},
    kWeightAndBias,
};

}  // namespace vesper

#include "llm/weights/whisper_names.h"

#include <algorithm>

namespace vesper {
namespace {

const std::vector<WhisperNaming::Row> kWeightAndBias = {{"weight", "weight"}, {"bias", "bias"}};

const WhisperNaming::Row* find_row(const std::vector<WhisperNaming::Row>& rows,
                                   std::string_view spelling) {
  for (const auto& row : rows) {
    if (row.first == spelling) return &row;
  }
  return nullptr;
}

}  // namespace

const WhisperNaming kCTranslate2WhisperNaming = {
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

const WhisperNaming kGgmlWhisperNaming = {
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

const WhisperNaming kHuggingFaceWhisperNaming = {
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

std::vector<std::string> canonical_whisper_names(const WhisperNaming& naming,
                                                 std::string_view file_name) {
  if (file_name.starts_with(naming.optional_prefix)) {
    file_name.remove_prefix(naming.optional_prefix.size());
  }
  if (const auto* row = find_row(naming.whole, file_name)) return {std::string(row->second)};

  const size_t last = file_name.rfind(naming.separator);
  if (last == std::string_view::npos) return {};
  const auto* leaf = find_row(naming.leaves, file_name.substr(last + 1));
  if (leaf == nullptr) return {};
  std::string_view stem = file_name.substr(0, last);
  if (const auto* row = find_row(naming.stems, stem)) {
    return {std::string(row->second) + "." + std::string(leaf->second)};
  }

  for (const auto& [prefix, canonical_prefix] : naming.layer_prefixes) {
    if (!stem.starts_with(prefix)) continue;
    stem.remove_prefix(prefix.size());
    const size_t n_digits = std::min(stem.find_first_not_of("0123456789"), stem.size());
    if (n_digits == 0 || n_digits > 4 || n_digits == stem.size() ||
        stem[n_digits] != naming.separator) {
      return {};
    }
    const auto* row = find_row(naming.layer_stems, stem.substr(n_digits + 1));
    if (row == nullptr) return {};
    std::vector<std::string> names;
    std::string_view parts = row->second;
    while (true) {
      const size_t end = std::min(parts.find('|'), parts.size());
      names.push_back(std::string(canonical_prefix) + std::string(stem.substr(0, n_digits)) + "." +
                      std::string(parts.substr(0, end)) + "." + std::string(leaf->second));
      if (end == parts.size()) return names;
      parts.remove_prefix(end + 1);
    }
  }
  return {};
}

}  // namespace vesper

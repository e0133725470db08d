#include "llm/weights/tensor_names.h"

#include <algorithm>

namespace vesper {
namespace {

const TensorNaming::Row* find_row(const std::vector<TensorNaming::Row>& rows,
                                  std::string_view spelling) {
  for (const auto& row : rows) {
    if (row.first == spelling) return &row;
  }
  return nullptr;
}

// A stem whose first number between separators, of at most 4 digits, is '#'.
struct NumberedStem {
  std::string pattern, number;

  NumberedStem(std::string_view stem, char separator) : pattern(stem) {
    for (size_t at = stem.find(separator); at != std::string_view::npos;
         at = stem.find(separator, at + 1)) {
      const size_t end = std::min(stem.find(separator, at + 1), stem.size());
      const std::string_view part = stem.substr(at + 1, end - at - 1);
      if (part.empty() || part.size() > 4 ||
          part.find_first_not_of("0123456789") != std::string_view::npos) {
        continue;
      }
      number = part;
      pattern.replace(at + 1, part.size(), "#");
      return;
    }
  }
  std::string with_number(std::string_view canonical) const {
    std::string name(canonical);
    if (const size_t at = name.find('#'); at != std::string::npos) name.replace(at, 1, number);
    return name;
  }
};

const std::vector<TensorNaming::Row> kWeightAndBias = {{"weight", "weight"}, {"bias", "bias"}};

// RoBERTa's tensors are BERT's with another prefix.
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

TensorNaming language_model_naming(std::vector<TensorNaming::Row> norms) {
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
       {"self_attn", "attn"},  // of the leaf "sinks"
       {"mlp.gate_proj", "ffn.gate"},
       {"mlp.up_proj", "ffn.up"},
       {"mlp.gate_up_proj", "ffn.gate|ffn.up"},
       {"mlp.down_proj", "ffn.down"},
       {"mlp.gate", "ffn.router"},
       {"mlp.router", "ffn.router"},
       {"mlp.experts.#.gate_proj", "experts.#.gate"},
       {"mlp.experts.#.up_proj", "experts.#.up"},
       {"mlp.experts.#.down_proj", "experts.#.down"},
       {"mlp.shared_expert_gate", "shared.router"},
       {"mlp.shared_expert.gate_proj", "shared.gate"},
       {"mlp.shared_expert.up_proj", "shared.up"},
       {"mlp.shared_expert.down_proj", "shared.down"},
       {"block_sparse_moe.gate", "ffn.router"},
       {"block_sparse_moe.experts.#.w1", "experts.#.gate"},
       {"block_sparse_moe.experts.#.w3", "experts.#.up"},
       {"block_sparse_moe.experts.#.w2", "experts.#.down"},
       {"block_sparse_moe.router.layer", "ffn.router"},
       {"block_sparse_moe.input_linear", "experts.*.gate|experts.*.up"},
       {"block_sparse_moe.output_linear", "experts.*.down"},
       {"input_layernorm", "attn_norm"}},
      {{"weight", "weight"}, {"bias", "bias"}, {"sinks", "sinks.weight"}},
  };
  naming.layer_stems.insert(naming.layer_stems.end(), norms.begin(), norms.end());
  return naming;
}

// `projections`: names of the matrices of attention and feed-forward.
TensorNaming gguf_language_model_naming(std::vector<TensorNaming::Row> projections) {
  TensorNaming naming = {
      '.',
      "",
      {},
      {{"token_embd", "decoder.embed"},
       {"output_norm", "decoder.norm"},
       {"output", "decoder.output"},
       {"rope_freqs", "decoder.rope_freqs"},
       {"rope_factors_short", "decoder.rope_freqs_short"},
       {"rope_factors_long", "decoder.rope_freqs_long"}},
      {{"blk.", "decoder.layers."}},
      std::move(projections),
      kWeightAndBias,
  };
  naming.layer_stems.insert(naming.layer_stems.end(),
                            {{"attn_norm", "attn_norm"},
                             {"attn_output", "attn.out"},
                             {"attn_q_norm", "attn.q_norm"},
                             {"attn_k_norm", "attn.k_norm"},
                             {"attn_sinks", "attn.sinks"},
                             {"post_attention_norm", "attn_post_norm"},
                             {"ffn_norm", "ffn_norm"},
                             {"ffn_down", "ffn.down"},
                             {"ffn_gate_inp", "ffn.router"},
                             {"ffn_gate_exps", "experts.*.gate"},
                             {"ffn_up_exps", "experts.*.up"},
                             {"ffn_down_exps", "experts.*.down"},
                             {"ffn_gate_inp_shexp", "shared.router"},
                             {"ffn_gate_shexp", "shared.gate"},
                             {"ffn_up_shexp", "shared.up"},
                             {"ffn_down_shexp", "shared.down"},
                             {"ffn_gate.#", "experts.#.gate"},  // files until April 2024
                             {"ffn_up.#", "experts.#.up"},
                             {"ffn_down.#", "experts.#.down"},
                             {"post_ffw_norm", "ffn_post_norm"}});
  return naming;
}

}  // namespace

std::vector<std::string> canonical_names(const TensorNaming& naming, std::string_view file_name) {
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
    const std::string_view inner_stem = stem.substr(n_digits + 1);
    const NumberedStem inner(inner_stem, naming.separator);
    // Some names have a number of their own, such as Whisper's "mlp.0".
    const auto* row = find_row(naming.layer_stems, inner_stem);
    if (row == nullptr) row = find_row(naming.layer_stems, inner.pattern);
    if (row == nullptr) return {};
    std::vector<std::string> names;
    std::string_view parts = row->second;
    while (true) {
      const size_t end = std::min(parts.find('|'), parts.size());
      names.push_back(std::string(canonical_prefix) + std::string(stem.substr(0, n_digits)) + "." +
                      inner.with_number(parts.substr(0, end)) + "." + std::string(leaf->second));
      if (end == parts.size()) return names;
      parts.remove_prefix(end + 1);
    }
  }
  return {};
}

std::optional<FileTensorName> file_tensor_name(const TensorNaming& naming,
                                               std::string_view canonical_name) {
  const auto find_canonical = [](const std::vector<TensorNaming::Row>& rows,
                                 std::string_view name) -> const TensorNaming::Row* {
    const auto found =
        std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.second == name; });
    return found == rows.end() ? nullptr : &*found;
  };
  if (const auto* row = find_canonical(naming.whole, canonical_name)) {
    return FileTensorName{std::string(row->first), {std::string(canonical_name)}};
  }
  const size_t last = canonical_name.rfind('.');
  if (last == std::string_view::npos) return std::nullopt;
  const auto* leaf = find_canonical(naming.leaves, canonical_name.substr(last + 1));
  if (leaf == nullptr) return std::nullopt;
  const std::string file_leaf = naming.separator + std::string(leaf->first);
  const std::string canonical_leaf = "." + std::string(leaf->second);
  std::string_view stem = canonical_name.substr(0, last);
  if (const auto* row = find_canonical(naming.stems, stem)) {
    return FileTensorName{std::string(row->first) + file_leaf, {std::string(canonical_name)}};
  }
  for (const auto& [prefix, canonical_prefix] : naming.layer_prefixes) {
    if (!stem.starts_with(canonical_prefix)) continue;
    stem.remove_prefix(canonical_prefix.size());
    const size_t dot = stem.find('.');
    if (dot == std::string_view::npos) return std::nullopt;
    const std::string number(stem.substr(0, dot));
    const NumberedStem inner(stem.substr(dot + 1), '.');
    for (const auto& [file_stem, canonical_stems] : naming.layer_stems) {
      FileTensorName tensor;
      bool holds = false;
      std::string_view rest = canonical_stems;
      while (!rest.empty()) {
        const std::string part(rest.substr(0, rest.find('|')));
        rest.remove_prefix(std::min(part.size() + 1, rest.size()));
        std::string pattern = part;
        std::replace(pattern.begin(), pattern.end(), '*', '#');
        holds |= pattern == inner.pattern;
        tensor.parts.push_back(std::string(canonical_prefix) + number + "." +
                               inner.with_number(part) + canonical_leaf);
      }
      if (!holds) continue;
      tensor.name = std::string(prefix) + number + naming.separator + inner.with_number(file_stem) +
                    file_leaf;
      return tensor;
    }
    return std::nullopt;
  }
  return std::nullopt;
}

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

const TensorNaming kHuggingFaceBertNaming = bert_naming("bert.");
const TensorNaming kHuggingFaceRobertaNaming = bert_naming("roberta.");

// BERT's, with other names in attention.
const TensorNaming kHuggingFaceMpnetNaming = [] {
  TensorNaming naming = bert_naming("mpnet.");
  naming.stems.push_back({"encoder.relative_attention_bias", "encoder.position_bias"});
  naming.layer_stems.insert(naming.layer_stems.end(), {{"attention.attn.q", "attn.q"},
                                                       {"attention.attn.k", "attn.k"},
                                                       {"attention.attn.v", "attn.v"},
                                                       {"attention.attn.o", "attn.out"},
                                                       {"attention.LayerNorm", "attn_norm"}});
  return naming;
}();

// BERT's, except that the gate is above the up rows in one feed-forward matrix.
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
    kWeightAndBias,
};

// As published by its authors, and in transformers since.
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
    kWeightAndBias,
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
    kWeightAndBias,
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
    kWeightAndBias,
};

// Norms precede their blocks, and ffn_up has the gate above it.
const TensorNaming kGgufModernBertNaming = {
    '.',
    "",
    {},
    {{"token_embd", "encoder.embed"},
     {"token_embd_norm", "encoder.embed_norm"},
     {"output_norm", "encoder.norm"}},
    {{"blk.", "encoder.layers."}},
    {{"attn_norm", "attn_norm"},
     {"attn_qkv", "attn.q|attn.k|attn.v"},  // first: llama.cpp reads no others
     {"attn_q", "attn.q"},
     {"attn_k", "attn.k"},
     {"attn_v", "attn.v"},
     {"attn_output", "attn.out"},
     {"ffn_norm", "ffn_norm"},
     {"ffn_up", "ffn.gate|ffn.up"},
     {"ffn_down", "ffn.down"}},
    kWeightAndBias,
};

const TensorNaming kHuggingFaceLanguageModelNaming =
    language_model_naming({{"post_attention_layernorm", "ffn_norm"}});

const TensorNaming kHuggingFacePostNormNaming =
    language_model_naming({{"post_attention_layernorm", "attn_post_norm"},
                           {"pre_feedforward_layernorm", "ffn_norm"},
                           {"post_feedforward_layernorm", "ffn_post_norm"}});

const TensorNaming kHuggingFaceGlm4Naming =
    language_model_naming({{"post_self_attn_layernorm", "attn_post_norm"},
                           {"post_attention_layernorm", "ffn_norm"},
                           {"post_mlp_layernorm", "ffn_post_norm"}});

const TensorNaming kGgufLanguageModelNaming =
    gguf_language_model_naming({{"attn_q", "attn.q"},
                                {"attn_k", "attn.k"},
                                {"attn_v", "attn.v"},
                                {"attn_qkv", "attn.q|attn.k|attn.v"},
                                {"ffn_gate", "ffn.gate"},
                                {"ffn_up", "ffn.up"}});

// The norm before the feed-forward block has the name of one after attention.
const TensorNaming kGgufGptOssNaming =
    gguf_language_model_naming({{"attn_q", "attn.q"},
                                {"attn_k", "attn.k"},
                                {"attn_v", "attn.v"},
                                {"post_attention_norm", "ffn_norm"}});

const TensorNaming kGgufPhi3Naming =
    gguf_language_model_naming({{"attn_qkv", "attn.q|attn.k|attn.v"},
                                {"attn_q", "attn.q"},
                                {"attn_k", "attn.k"},
                                {"attn_v", "attn.v"},
                                {"ffn_up", "ffn.gate|ffn.up"}});

}  // namespace vesper

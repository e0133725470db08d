// Passes over rows with positions in a KvCache: prompts and steps.
#include <string>

#include "llm/models/transformer.h"

namespace vesper {

WriteKvParams TransformerStack::write_params(const KvCache& cache, uint32_t n_rows,
                                             uint32_t row_stride, DType dtype) const {
  WriteKvParams params{};
  params.n_rows = n_rows;
  params.n_kv_heads = config_.n_kv_heads;
  params.head_dim = config_.head_dim;
  params.in_row_stride = row_stride;
  params.page_rows = cache.shape().page_rows;
  params.pages_per_sequence = cache.pages_per_sequence();
  params.in_dtype = code(dtype);
  params.kv_dtypes = cache.shape().types.codes();
  return params;
}

bool TransformerStack::attention_writes_kv(uint32_t layer, const CausalContext& context) const {
  return device_writes_kv_ && context.order == PassRowOrder::kOneEach &&
         attention_can_write_kv(context.self->shape().types.codes(), n_pairs(layer),
                                config_.interleaved_rope);
}

void TransformerStack::emit_causal(DispatchTable& table, uint32_t n_rows, const Operand& x,
                                   const CausalContext& context, PassPart part) const {
  const bool is_prompt = context.order == PassRowOrder::kOneSequence;
  const PassRows rows{n_rows, is_prompt ? prompt_activation_ : activation_, context.rows};
  const auto n_layers = static_cast<uint32_t>(layers_.size());
  for (uint32_t l = part == PassPart::kRest ? n_layers - 1 : 0; l < n_layers; ++l) {
    const std::string label = std::string(config_.name) + "." + std::to_string(l) + ".";
    if (part != PassPart::kRest) emit_keys_and_values(table, label, l, rows, x, context);
    if (part == PassPart::kKeysAndValues && l + 1 == n_layers) break;
    emit_self_attention(table, label, l, rows, x, context);
    if (config_.cross_attention) emit_cross_attention(table, label, l, rows, x, context);
    emit_ffn(table, label, layers_[l], rows, x);
  }
}

void TransformerStack::emit_keys_and_values(DispatchTable& table, const std::string& label,
                                            uint32_t layer, const PassRows& rows, const Operand& x,
                                            const CausalContext& context) const {
  const uint32_t q = config_.q_width(), kv = config_.kv_width();
  const LayerWeights& weights = layers_[layer];
  const KvCache& self = *context.self;
  const BlockInput in = emit_norm_before(table, label + "attn_norm", weights.attn_norm,
                                         weights.attn_qkv.weight, rows.n, rows.dtype, x);
  emit_first(table, label + "attn.qkv", weights.attn_qkv, rows, in, qkv_, rows.dtype);
  if (attention_writes_kv(layer, context)) {
    emit_whole_norms(table, label, weights, rows.n, rows.dtype);
  } else if (prepares_heads()) {
    emit_rope(table, label, layer, rows.n, rows.dtype, context.rows, &self);
  } else {
    const WriteKvParams write = write_params(self, rows.n, q + 2 * kv, rows.dtype);
    emit::write_kv(table, label + "attn.write_kv", write, self.keys(layer), self.values(layer),
                   qkv_.from(dtype_bytes(rows.dtype, q)),
                   qkv_.from(dtype_bytes(rows.dtype, q + kv)), context.rows,
                   self.page_table(layer));
  }
}

PagedAttentionParams TransformerStack::attention_params(const PassRows& rows,
                                                        const CausalContext& context,
                                                        const KvCache& cache,
                                                        DType out_dtype) const {
  const bool is_prompt = context.order == PassRowOrder::kOneSequence;
  PagedAttentionParams params{};
  params.n_rows = rows.n;
  params.n_heads = config_.n_heads;
  params.n_kv_heads = config_.n_kv_heads;
  params.head_dim = config_.head_dim;
  params.out_row_stride = config_.q_width();
  params.page_rows = cache.shape().page_rows;
  params.pages_per_sequence = cache.pages_per_sequence();
  params.scale = attention_scale();
  params.soft_cap = config_.attention_soft_cap;
  params.q_dtype = code(rows.dtype);
  params.out_dtype = code(out_dtype);
  params.kv_dtypes = cache.shape().types.codes();
  params.flags = (is_prompt ? kAttentionOneSequence : 0) |
                 (is_prompt && context.rounds_attention ? kAttentionRounds : 0);
  return params;
}

void TransformerStack::emit_self_attention(DispatchTable& table, const std::string& label,
                                           uint32_t layer, const PassRows& rows, const Operand& x,
                                           const CausalContext& context) const {
  const LayerWeights& weights = layers_[layer];
  const KvCache& self = *context.self;
  const DType dtype = input_dtype(weights.attn_out.weight, rows.n, rows.dtype);
  const bool writes_kv = attention_writes_kv(layer, context);
  const HeadOperands heads = writes_kv ? head_operands(layer) : HeadOperands{};
  PagedAttentionParams attention = attention_params(rows, context, self, dtype);
  attention.q_row_stride = config_.q_width() + 2 * config_.kv_width();
  attention.window = config_.layers[layer].sliding_window;
  attention.n_pairs = n_pairs(layer);
  attention.interleaved = config_.interleaved_rope;
  attention.norm_epsilon = config_.norm_epsilon;
  if (writes_kv) attention.flags |= kAttentionWritesKv;
  emit::paged_attention(table, label + "attn", attention, attended_, qkv_, self.keys(layer),
                        self.values(layer), context.rows, self.page_table(layer),
                        weights.attn_sinks, heads.angles, heads.q_norm_weight, heads.k_norm_weight);
  emit_block_end(table, label + "attn.out", weights.attn_out, weights.attn_post_norm, rows,
                 {attended_, dtype}, x);
  emit_norm_after(table, label + "attn_norm", weights.attn_norm, rows.n, x);
}

void TransformerStack::emit_cross_attention(DispatchTable& table, const std::string& label,
                                            uint32_t layer, const PassRows& rows, const Operand& x,
                                            const CausalContext& context) const {
  const LayerWeights& weights = layers_[layer];
  const KvCache& source = *context.cross;
  const DType dtype = input_dtype(weights.cross_out.weight, rows.n, rows.dtype);
  PagedAttentionParams cross = attention_params(rows, context, source, dtype);
  cross.q_row_stride = config_.q_width();
  cross.kv_length = source.shape().n_positions;
  const BlockInput in = emit_norm_before(table, label + "cross_norm", weights.cross_norm,
                                         weights.cross_q.weight, rows.n, rows.dtype, x);
  emit_first(table, label + "cross.q", weights.cross_q, rows, in, qkv_, rows.dtype);
  if (context.weights) emit_cross_weights(table, label, layer, cross, context);
  emit::paged_attention(table, label + "cross", cross, attended_, qkv_, source.keys(layer),
                        source.values(layer), context.rows, context.cross_pages);
  emit_linear(table, label + "cross.out", weights.cross_out, rows.n, x, DType::kF32, attended_,
              dtype, {.residual = x, .rows = context.rows});
  emit_norm_after(table, label + "cross_norm", weights.cross_norm, rows.n, x);
}

void TransformerStack::emit_cross_weights(DispatchTable& table, const std::string& label,
                                          uint32_t layer, const PagedAttentionParams& cross,
                                          const CausalContext& context) const {
  const std::vector<Operand>& heads = context.weights->heads;
  if (!heads[layer].present()) return;
  const auto n_heads = [&](uint32_t l) { return heads[l].bytes / sizeof(uint32_t); };
  uint64_t n_before = 0;
  for (uint32_t l = 0; l < layer; ++l) n_before += n_heads(l);
  AttentionWeightsParams params{};
  params.n_rows = cross.n_rows;
  params.n_selected = static_cast<uint32_t>(n_heads(layer));
  params.n_heads = cross.n_heads;
  params.n_kv_heads = cross.n_kv_heads;
  params.head_dim = cross.head_dim;
  params.q_row_stride = cross.q_row_stride;
  params.page_rows = cross.page_rows;
  params.pages_per_sequence = cross.pages_per_sequence;
  params.kv_length = cross.kv_length;
  params.scale = cross.scale;
  params.q_dtype = cross.q_dtype;
  params.k_dtype = key_dtype(cross.kv_dtypes);
  const uint64_t head_bytes = sizeof(float) * uint64_t{cross.n_rows} * cross.kv_length;
  emit::attention_weights(
      table, label + "cross.weights", params,
      context.weights->out.part(n_before * head_bytes, params.n_selected * head_bytes), qkv_,
      context.cross->keys(layer), context.rows, context.cross_pages, heads[layer],
      context.weights->lengths);
}

void TransformerStack::emit_cross_kv(DispatchTable& table, uint32_t n_sequences,
                                     uint32_t rows_per_sequence, const Operand& source,
                                     DType source_dtype, const KvCache& cross,
                                     const std::array<Operand, 2>& scratch) const {
  const uint32_t n_rows = n_sequences * rows_per_sequence, kv = config_.kv_width();
  WriteKvParams write = write_params(cross, n_rows, 2 * kv, DType::kF32);
  write.rows_per_sequence = rows_per_sequence;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const uint32_t l = static_cast<uint32_t>(i);
    const std::string label = std::string(config_.name) + "." + std::to_string(i) + ".cross.";
    const Operand& rows = scratch[i % 2];
    emit_linear(table, label + "kv", layers_[i].cross_kv, n_rows, rows, DType::kF32, source,
                source_dtype);
    emit::write_kv(table, label + "write_kv", write, cross.keys(l), cross.values(l), rows,
                   rows.from(dtype_bytes(DType::kF32, kv)), {}, cross.page_table());
  }
}

}  // namespace vesper

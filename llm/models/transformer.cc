#include "llm/models/transformer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "llm/models/position_bias.h"

namespace vesper {
namespace {

uint32_t kernel_norm(NormKind kind) { return kind == NormKind::kLayer ? kNormLayer : kNormRms; }

uint32_t kernel_activation(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return kActivationGelu;
    case Activation::kGeluTanh:
      return kActivationGeluTanh;
    case Activation::kSilu:
      return kActivationSilu;
    case Activation::kRelu:
      return kActivationRelu;
    case Activation::kClampedSwiGlu:
      return kActivationClampedSwiGlu;
  }
  return kActivationNone;
}

// The rows of gates and the up rows of a hidden layer. Products apply activations of one number
// only (emit_hidden).
LinearWeights upload_gate_up(const WeightUploader& upload, const StackConfig& config,
                             const std::string& prefix, uint32_t d_ffn, WeightUse use) {
  const bool within_product = kernel_activation(config.activation) <= kActivationSigmoid;
  return upload.linear(prefix, {"gate", "up"}, {d_ffn, d_ffn}, config.d_model, use,
                       within_product ? MatrixKind::kGates : MatrixKind::kPlain);
}

// The router is multiplied in f32: a rounded logit could choose another expert.
void upload_experts(const WeightUploader& upload, const WeightUploader& exact,
                    const StackConfig& config, const std::string& prefix, WeightUse use,
                    LayerWeights& layer) {
  const ExpertsConfig& experts = config.experts;
  const uint32_t d = config.d_model;
  if (experts.d_shared == 0) {
    layer.router = exact.linear(prefix, {"ffn.router"}, {experts.n}, d, use);
  } else {
    layer.router = exact.linear(prefix, {"ffn.router", "shared.router"}, {experts.n, 1}, d, use);
    layer.shared_up = upload_gate_up(upload, config, prefix + "shared.", experts.d_shared, use);
    layer.shared_down = upload.linear(prefix + "shared.", {"down"}, {d}, experts.d_shared, use);
  }
  std::vector<std::string> up, down;
  for (uint32_t e = 0; e < experts.n; ++e) {
    const std::string expert = std::to_string(e) + ".";
    up.insert(up.end(), {expert + "gate", expert + "up"});
    down.push_back(expert + "down");
  }
  const std::vector<uint32_t> up_rows(up.size(), experts.d_ffn), down_rows(down.size(), d);
  layer.ffn_up = upload.linear(prefix + "experts.", up, up_rows, d, use, MatrixKind::kExperts);
  layer.ffn_down =
      upload.linear(prefix + "experts.", down, down_rows, experts.d_ffn, use, MatrixKind::kExperts);
}

uint64_t group_bytes(uint32_t n_slots, uint32_t n_experts) {
  return sizeof(uint32_t) * uint64_t{n_slots} +
         sizeof(ExpertTile) * uint64_t{most_expert_tiles(n_slots, n_experts)};
}

// Slots from which expert_matmul reads them grouped: each expert has two or more, so its weights
// are read less often, and the tiles of a GPU have some rows.
bool groups_slots(uint32_t n_slots, const ExpertsConfig& experts) {
  return n_slots > experts.n_used && n_slots >= 2 * experts.n;
}

}  // namespace

TransformerStack::TransformerStack(Device& device, const WeightProvider& provider,
                                   const StackConfig& config, Compute compute, WeightUse use,
                                   uint32_t max_rows)
    : config_(config),
      activation_(device.activation_dtype(compute, use, 1)),
      prompt_activation_(device.activation_dtype(compute, use, max_rows)),
      device_writes_kv_(device.info().policy.attention_writes_kv) {
  const WeightUploader upload(device, provider, compute, config.norm_weight_offset);
  const uint32_t d = config.d_model, q = config.q_width(), kv = config.kv_width();
  const std::string stack(config.name);
  bool has_post_norms = false;
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    const std::string prefix = stack + ".layers." + std::to_string(i) + ".";
    LayerWeights layer;
    // Absent if the block directly follows another norm, like ModernBERT's first.
    if (provider.find(prefix + "attn_norm.weight")) {
      layer.attn_norm = upload.norm(prefix + "attn_norm", d);
    }
    layer.attn_qkv = upload.linear(prefix + "attn.", {"q", "k", "v"}, {q, kv, kv}, d, use);
    layer.attn_q_norm = upload.head_norm(prefix + "attn.q_norm", config.head_dim, q);
    layer.attn_k_norm = upload.head_norm(prefix + "attn.k_norm", config.head_dim, kv);
    has_head_norms_ |= layer.attn_q_norm.present() || layer.attn_k_norm.present();
    if (const std::string sinks = prefix + "attn.sinks.weight"; provider.find(sinks)) {
      layer.attn_sinks = upload.vector(sinks, config.n_heads);
    }
    layer.attn_out = upload.linear(prefix + "attn.", {"out"}, {d}, q, use);
    if (config.cross_attention) {
      layer.cross_norm = upload.norm(prefix + "cross_norm", d);
      layer.cross_q = upload.linear(prefix + "cross.", {"q"}, {q}, d, use);
      layer.cross_kv =
          upload.linear(prefix + "cross.", {"k", "v"}, {kv, kv}, d, WeightUse::kManyRows);
      layer.cross_out = upload.linear(prefix + "cross.", {"out"}, {d}, q, use);
    }
    if (config.norm_placement != NormPlacement::kOutput) {
      layer.ffn_norm = upload.norm(prefix + "ffn_norm", d);
    }
    if (config.experts.any() && provider.find(prefix + "ffn.router.weight")) {
      upload_experts(upload, WeightUploader(device, provider, Compute::kF32), config, prefix, use,
                     layer);
    } else if (config.gated_ffn) {
      layer.ffn_up = upload_gate_up(upload, config, prefix + "ffn.", config.d_ffn, use);
    } else {
      layer.ffn_up = upload.linear(prefix + "ffn.", {"up"}, {config.d_ffn}, d, use);
    }
    if (!layer.has_experts()) {
      layer.ffn_down = upload.linear(prefix + "ffn.", {"down"}, {d}, config.d_ffn, use);
    }
    if (provider.find(prefix + "attn_post_norm.weight")) {
      layer.attn_post_norm = upload.norm(prefix + "attn_post_norm", d);
      has_post_norms = true;
    }
    if (provider.find(prefix + "ffn_post_norm.weight")) {
      layer.ffn_post_norm = upload.norm(prefix + "ffn_post_norm", d);
      has_post_norms = true;
    }
    layers_.push_back(layer);
  }
  for (const RopeSettings& rope : config.ropes) {
    rope_angles_.push_back(upload.store(uint64_t{config.n_positions} * rope.n_pairs * 2,
                                        "rotary angles",
                                        [&] { return rope_angles(rope, config.n_positions); }));
  }
  if (has_position_bias(config)) {
    bias_reach_ = std::min(config.n_positions, max_rows) - 1;
    position_bias_ = upload_position_bias(upload, provider, config, bias_reach_);
  }
  if (config.norm_placement != NormPlacement::kAfter) {
    final_norm_ = upload.norm(stack + ".norm", d, config.logit_scale);
  }
  const uint64_t number_bytes =
      std::max(dtype_bytes(activation_, 1), dtype_bytes(prompt_activation_, 1));
  const auto scratch = [&](uint64_t width, const char* label) {
    return device.allocate(number_bytes * max_rows * width, stack + " " + label);
  };
  if (config.norm_placement == NormPlacement::kBefore) normed_ = scratch(d, "normed rows");
  qkv_ = scratch(q + 2 * kv, "queries, keys, values");
  attended_ = scratch(q, "attended rows");
  // Of a dense layer, of the slots of one with experts, and of its shared expert.
  const ExpertsConfig& experts = config.experts;
  const uint64_t d_hidden =
      std::max({uint64_t{config.d_ffn}, uint64_t{experts.n_used} * experts.d_ffn,
                uint64_t{experts.d_shared}});
  hidden_ = scratch(d_hidden, "hidden rows");
  if (config.gated_ffn) gate_up_ = scratch(2 * d_hidden, "gates and rows");
  if (experts.any()) {
    const uint32_t n_slots = max_rows * experts.n_used;
    const auto words = [&](uint64_t n, const char* label) {
      return device.allocate(sizeof(uint32_t) * n, stack + " " + label);
    };
    const uint32_t n_shared = experts.d_shared != 0 ? 1 : 0;
    router_logits_ = words(uint64_t{max_rows} * (experts.n + n_shared), "router logits");
    expert_ids_ = words(n_slots, "experts of rows");
    expert_weights_ = words(n_slots + n_shared * max_rows, "weights of experts");
    expert_groups_ = device.allocate(group_bytes(n_slots, experts.n), stack + " slots by expert");
    expert_out_ = words(uint64_t{n_slots} * d, "rows of experts");
  }
  if (has_post_norms || experts.d_shared != 0) {
    block_out_ = device.allocate(dtype_bytes(DType::kF32, uint64_t{max_rows} * d),
                                 stack + " rows of a block");
  }
}

void TransformerStack::emit_norm(DispatchTable& table, std::string label,
                                 const NormWeights& weights, uint32_t n_rows, const Operand& out,
                                 DType out_dtype, const Operand& x, const Operand& index) const {
  const NormParams params{
      n_rows,          config_.d_model, config_.norm_epsilon, kernel_norm(config_.norm),
      code(out_dtype), kDTypeF32,       config_.d_model};
  emit::norm(table, std::move(label), params, out, x, weights.weight, weights.bias, index);
}

TransformerStack::BlockInput TransformerStack::emit_norm_before(
    DispatchTable& table, std::string label, const NormWeights& weights, const Weight& product,
    uint32_t n_rows, DType dtype, const Operand& x) const {
  if (config_.norm_placement != NormPlacement::kBefore || !weights.weight.present()) {
    return {x, DType::kF32};
  }
  if (config_.norm == NormKind::kRms) {
    if (n_rows <= product.norm_rows && !weights.bias.present()) {
      return {x, DType::kF32, weights.weight};
    }
  } else if (n_rows <= product.layer_norm_rows && weights.bias.present()) {
    return {x, DType::kF32, weights.both};
  }
  dtype = input_dtype(product, n_rows, dtype);
  emit_norm(table, std::move(label), weights, n_rows, normed_, dtype, x);
  return {normed_, dtype};
}

void TransformerStack::emit_first(DispatchTable& table, std::string label,
                                  const LinearWeights& linear, const PassRows& rows,
                                  const BlockInput& in, const Operand& out, DType out_dtype,
                                  uint32_t activation, bool gated) const {
  emit_linear(table, std::move(label), linear, rows.n, out, out_dtype, in.rows, in.dtype,
              {.activation = activation,
               .rows = rows.sequences,
               .norm_weight = in.norm_weight,
               .layer_norm = in.norm_weight.present() && config_.norm == NormKind::kLayer,
               .norm_epsilon = config_.norm_epsilon,
               .gated = gated});
}

void TransformerStack::emit_norm_after(DispatchTable& table, std::string label,
                                       const NormWeights& weights, uint32_t n_rows,
                                       const Operand& x) const {
  if (config_.norm_placement != NormPlacement::kAfter) return;
  emit_norm(table, std::move(label), weights, n_rows, x, DType::kF32, x);
}

void TransformerStack::emit_experts(DispatchTable& table, const std::string& label,
                                    const LayerWeights& layer, const PassRows& rows,
                                    const Operand& x) const {
  // No structured binding: clang 14 cannot capture one.
  const uint32_t n_rows = rows.n;
  const DType dtype = rows.dtype;
  const Operand& sequences = rows.sequences;
  const ExpertsConfig& experts = config_.experts;
  const uint32_t n_slots = n_rows * experts.n_used, n_shared = experts.d_shared != 0 ? 1 : 0;
  const auto words = [](const Operand& buffer, uint64_t n) {
    return buffer.part(0, n * sizeof(uint32_t));
  };
  const auto numbers = [](const Operand& buffer, DType type, uint64_t n) {
    return buffer.part(0, dtype_bytes(type, n));
  };
  const Operand used = sequences.present() ? sequences.part(0, n_rows * sizeof(Row)) : Operand{};
  emit_norm(table, label + "ffn_norm", layer.ffn_norm, n_rows, normed_, dtype, x);
  emit_linear(table, label + "ffn.router", layer.router, n_rows, router_logits_, DType::kF32,
              normed_, dtype, {.rows = sequences});
  const Operand ids = words(expert_ids_, n_slots),
                weights = words(expert_weights_, n_slots + n_shared * n_rows);
  emit::route_experts(table, label + "ffn.route",
                      {n_rows, experts.n, experts.n_used, experts.normalizes, n_shared}, ids,
                      weights, words(router_logits_, uint64_t{n_rows} * (experts.n + n_shared)));
  ExpertMatmulParams product{};
  product.n_slots = n_slots;
  product.n_used = experts.n_used;
  product.n_experts = experts.n;
  Operand groups;
  if (groups_slots(n_slots, experts)) {
    product.n_tiles = most_expert_tiles(n_slots, experts.n);
    groups = expert_groups_.part(0, group_bytes(n_slots, experts.n));
    emit::group_experts(table, label + "ffn.group",
                        {n_slots, experts.n_used, experts.n, product.n_tiles}, groups, ids, used);
  }
  const auto multiply = [&](const char* name, const LinearWeights& linear, const Operand& out,
                            DType out_dtype, const Operand& in) {
    product.n_out = linear.weight.n_out / experts.n;
    product.n_in = linear.weight.n_in;
    product.in_dtype = code(dtype);
    product.out_dtype = code(out_dtype);
    product.weight_format = linear.weight.format;
    const uint64_t in_rows = product.in_per_slot ? n_slots : n_rows;
    emit::expert_matmul(table, label + name, product,
                        numbers(out, out_dtype, uint64_t{n_slots} * product.n_out),
                        numbers(in, dtype, in_rows * product.n_in), linear.weight.data, linear.bias,
                        linear.weight.scale, ids, used, groups);
  };
  multiply("experts.gate_up", layer.ffn_up, gate_up_, dtype, normed_);
  const GatedActivationParams gate{
      n_slots,     experts.d_ffn, kernel_activation(config_.activation),
      code(dtype), code(dtype),   kSwiGluLimit};
  emit::gated_activation(table, label + "experts.activation", gate,
                         numbers(hidden_, dtype, uint64_t{n_slots} * experts.d_ffn),
                         numbers(gate_up_, dtype, 2 * uint64_t{n_slots} * experts.d_ffn));
  product.in_per_slot = 1;
  multiply("experts.down", layer.ffn_down, expert_out_, DType::kF32, hidden_);
  Operand shared;
  if (n_shared != 0) {
    const BlockInput hidden = emit_hidden(table, label + "shared", layer.ffn_norm, layer.shared_up,
                                          layer.shared_down.weight, rows, x);
    shared = numbers(block_out_, DType::kF32, uint64_t{n_rows} * config_.d_model);
    emit_linear(table, label + "shared.down", layer.shared_down, n_rows, shared, DType::kF32,
                hidden.rows, hidden.dtype, {.rows = sequences});
  }
  emit::combine_experts(table, label + "experts.sum", {n_rows, experts.n_used, config_.d_model},
                        x.part(0, dtype_bytes(DType::kF32, uint64_t{n_rows} * config_.d_model)),
                        numbers(expert_out_, DType::kF32, uint64_t{n_slots} * config_.d_model),
                        weights, shared);
}

TransformerStack::BlockInput TransformerStack::emit_hidden(
    DispatchTable& table, const std::string& stem, const NormWeights& norm, const LinearWeights& up,
    const Weight& down, const PassRows& rows, const Operand& x) const {
  const auto& [n_rows, dtype, sequences] = rows;
  const uint32_t activation = kernel_activation(config_.activation);
  const DType hidden_dtype =
      n_rows <= up.weight.int8_rows ? input_dtype(down, n_rows, dtype) : dtype;
  const BlockInput in = emit_norm_before(table, stem + "_norm", norm, up.weight, n_rows, dtype, x);
  if (!config_.gated_ffn) {
    emit_first(table, stem + ".up", up, rows, in, hidden_, hidden_dtype, activation);
  } else if ((n_rows <= up.weight.gate_rows || n_rows >= up.weight.gate_from_rows) &&
             activation <= kActivationSigmoid) {
    emit_first(table, stem + ".gate_up", up, rows, in, hidden_, hidden_dtype, activation, true);
  } else {
    emit_first(table, stem + ".gate_up", up, rows, in, gate_up_, dtype);
    const GatedActivationParams gate{n_rows,      down.n_in,   activation,
                                     code(dtype), code(dtype), kSwiGluLimit};
    emit::gated_activation(table, stem + ".activation", gate, hidden_, gate_up_);
  }
  return {hidden_, hidden_dtype};
}

void TransformerStack::emit_ffn(DispatchTable& table, const std::string& label,
                                const LayerWeights& layer, const PassRows& rows,
                                const Operand& x) const {
  if (layer.has_experts()) return emit_experts(table, label, layer, rows, x);
  const BlockInput hidden = emit_hidden(table, label + "ffn", layer.ffn_norm, layer.ffn_up,
                                        layer.ffn_down.weight, rows, x);
  emit_block_end(table, label + "ffn.down", layer.ffn_down, layer.ffn_post_norm, rows, hidden, x);
  emit_norm_after(table, label + "ffn_norm", layer.ffn_norm, rows.n, x);
}

void TransformerStack::emit_block_end(DispatchTable& table, const std::string& label,
                                      const LinearWeights& linear, const NormWeights& post_norm,
                                      const PassRows& rows, const BlockInput& in,
                                      const Operand& x) const {
  const uint32_t n_rows = rows.n;
  if (!post_norm.weight.present()) {
    emit_linear(table, label, linear, n_rows, x, DType::kF32, in.rows, in.dtype,
                {.residual = x, .rows = rows.sequences});
    return;
  }
  emit_linear(table, label, linear, n_rows, block_out_, DType::kF32, in.rows, in.dtype,
              {.rows = rows.sequences});
  const NormParams norm{n_rows,    config_.d_model, config_.norm_epsilon, kernel_norm(config_.norm),
                        kDTypeF32, kDTypeF32,       config_.d_model};
  emit::norm(table, label + ".norm", norm, x, block_out_, post_norm.weight, post_norm.bias, {}, x);
}

float TransformerStack::attention_scale() const {
  return config_.attention_scale > 0 ? config_.attention_scale
                                     : 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
}

void TransformerStack::emit_whole_norms(DispatchTable& table, const std::string& label,
                                        const LayerWeights& layer, uint32_t n_rows,
                                        DType dtype) const {
  const uint32_t q = config_.q_width(), kv = config_.kv_width(), stride = q + 2 * kv;
  const auto norm = [&](const char* name, const Operand& weight, uint32_t first, uint32_t width) {
    if (!weight.present() || weight.bytes == config_.head_dim * sizeof(float)) return;
    const NormParams params{n_rows,      width, config_.norm_epsilon, kNormRms, code(dtype),
                            code(dtype), stride};
    const Operand heads = qkv_.part(dtype_bytes(dtype, first),
                                    dtype_bytes(dtype, uint64_t{n_rows - 1} * stride + width));
    emit::norm(table, label + name, params, heads, heads, weight, {}, {});
  };
  norm("attn.q_norm", layer.attn_q_norm, 0, q);
  norm("attn.k_norm", layer.attn_k_norm, q, kv);
}

uint32_t TransformerStack::n_pairs(uint32_t layer) const {
  const std::optional<uint32_t> rope = config_.layers[layer].rope;
  return rope ? config_.ropes[*rope].n_pairs : 0;
}

TransformerStack::HeadOperands TransformerStack::head_operands(uint32_t layer) const {
  const auto of_heads = [&](const Operand& norm) {
    return norm.bytes == config_.head_dim * sizeof(float) ? norm : Operand{};
  };
  const std::optional<uint32_t> rope = config_.layers[layer].rope;
  return {rope ? rope_angles_[*rope] : Operand{}, of_heads(layers_[layer].attn_q_norm),
          of_heads(layers_[layer].attn_k_norm)};
}

void TransformerStack::emit_rope(DispatchTable& table, const std::string& label, uint32_t layer,
                                 uint32_t n_rows, DType dtype, const Operand& rows,
                                 const KvCache* cache) const {
  emit_whole_norms(table, label, layers_[layer], n_rows, dtype);
  RopeParams params{};
  params.n_rows = n_rows;
  params.n_heads = config_.n_heads;
  params.n_kv_heads = config_.n_kv_heads;
  params.head_dim = config_.head_dim;
  params.row_stride = config_.q_width() + 2 * config_.kv_width();
  params.n_pairs = n_pairs(layer);
  params.interleaved = config_.interleaved_rope;
  params.norm_epsilon = config_.norm_epsilon;
  params.dtype = code(dtype);
  if (cache) {
    params.kv_dtypes = cache->shape().types.codes();
    params.page_rows = cache->shape().page_rows;
    params.pages_per_sequence = cache->pages_per_sequence();
  }
  const HeadOperands heads = head_operands(layer);
  emit::rope(table, label + "attn.rope", params, qkv_, rows, heads.angles, heads.q_norm_weight,
             heads.k_norm_weight, cache ? cache->keys(layer) : Operand{},
             cache ? cache->values(layer) : Operand{},
             cache ? cache->page_table(layer) : Operand{});
}

void TransformerStack::emit_bidirectional(DispatchTable& table, uint32_t n_rows,
                                          uint32_t n_sequences, const Operand& x,
                                          const Operand& starts, const Operand& rows,
                                          const PooledRows* pooled) const {
  const uint32_t q = config_.q_width(), kv = config_.kv_width(), width = q + 2 * kv;
  AttentionParams attention{};
  attention.n_sequences = n_sequences;
  attention.rows_per_sequence = starts.present() ? n_rows : n_rows / n_sequences;
  attention.n_heads = config_.n_heads;
  attention.n_kv_heads = config_.n_kv_heads;
  attention.head_dim = config_.head_dim;
  attention.q_row_stride = attention.k_row_stride = attention.v_row_stride = width;
  attention.out_row_stride = q;
  attention.scale = attention_scale();
  attention.causal = config_.attention == AttentionKind::kCausal;
  attention.bias_reach = bias_reach_;
  attention.in_dtype = attention.out_dtype = code(activation_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LayerWeights& layer = layers_[i];
    const std::string label = std::string(config_.name) + "." + std::to_string(i) + ".";
    const BlockInput in = emit_norm_before(table, label + "attn_norm", layer.attn_norm,
                                           layer.attn_qkv.weight, n_rows, activation_, x);
    emit_first(table, label + "attn.qkv", layer.attn_qkv, {n_rows, activation_}, in, qkv_,
               activation_);
    const uint32_t l = static_cast<uint32_t>(i), window = config_.layers[l].sliding_window;
    if (prepares_heads()) emit_rope(table, label, l, n_rows, activation_, rows, nullptr);
    attention.window = window > 0 ? window - 1 : 0;
    emit::attention(
        table, label + "attn", attention, attended_, qkv_, qkv_.from(dtype_bytes(activation_, q)),
        qkv_.from(dtype_bytes(activation_, q + kv)), starts, position_bias_, layer.attn_sinks);
    PassRows rest{n_rows, activation_};
    Operand attended = attended_, rest_x = x;
    if (pooled && i + 1 == layers_.size()) {
      rest.n = n_sequences;
      attended = qkv_;  // which attention has read
      rest_x = pooled->x;
      const auto pool = [&](const char* name, uint32_t d, DType dtype, const Operand& to,
                            const Operand& from) {
        const PoolParams params{n_sequences, d, d, pooled->kind, 0, code(dtype)};
        emit::pool(table, label + name, params, to, from, starts);
      };
      pool("attn.pool", q, activation_, attended, attended_);
      pool("pool", config_.d_model, DType::kF32, rest_x, x);
    }
    emit_block_end(table, label + "attn.out", layer.attn_out, layer.attn_post_norm, rest,
                   {attended, activation_}, rest_x);
    emit_norm_after(table, label + "attn_norm", layer.attn_norm, rest.n, rest_x);
    emit_ffn(table, label, layer, rest, rest_x);
  }
}

void TransformerStack::emit_final_norm(DispatchTable& table, uint32_t n_rows, const Operand& out,
                                       DType out_dtype, const Operand& x,
                                       const Operand& index) const {
  emit_norm(table, std::string(config_.name) + ".norm", final_norm_, n_rows, out, out_dtype, x,
            index);
}

}  // namespace vesper

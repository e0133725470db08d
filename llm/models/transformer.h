// Builds one stack of transformer layers: uploads weights, then emits commands.
//
// In: a StackConfig and a model's tensors. Out: commands that update the residual stream `x` in
// place, layer by layer. Used by encoders and decoders, which add the parts before the first and
// after the last layer.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "llm/config/model_config.h"
#include "llm/models/kv_cache.h"
#include "llm/models/linear.h"
#include "llm/models/weight_uploader.h"
#include "llm/table/device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

struct LayerWeights {
  NormWeights attn_norm;
  LinearWeights attn_qkv;            // [q_width + 2 * kv_width, d_model]: queries, keys, values
  Operand attn_q_norm, attn_k_norm;  // weights of RMS norms of each head, f32 [head_dim], or of all
                                     // together, f32 [q_width] and [kv_width] (?)
  Operand attn_sinks;                // f32 [n_heads], see paged_attention (?)
  LinearWeights attn_out;
  NormWeights attn_post_norm;  // of the block's output, before the residual is added (?)
  NormWeights cross_norm;
  LinearWeights cross_q, cross_out;
  LinearWeights cross_kv;  // [2 * kv_width, d_model], for the output of the other stack
  NormWeights ffn_norm;
  LinearWeights ffn_up;  // [d_ffn, d_model]; gated: gate above up, [2 * d_ffn, d_model]
  LinearWeights ffn_down;
  NormWeights ffn_post_norm;  // like attn_post_norm
  // With experts, ffn_up is [n_experts * 2 * d_ffn, d_model], gate above up of each expert, and
  // ffn_down [n_experts * d_model, d_ffn].
  LinearWeights router;                  // [n_experts, d_model], and a row of the shared expert (?)
  LinearWeights shared_up, shared_down;  // like ffn_up and ffn_down of a dense layer (?)
  bool has_experts() const { return router.weight.data.present(); }
};

// What is known of the rows of a causal pass.
enum class PassRowOrder {
  kAny,
  kOneSequence,  // successive positions of one sequence, unused rows last: a prompt
  kOneEach,      // each sequence has at most one row: a step
};

// Which part of a causal pass is appended to a table. A prompt whose logits nobody reads needs only
// the keys and values of the last layer.
enum class PassPart {
  kAll,
  kKeysAndValues,  // up to the keys and values of the last layer
  kRest,           // what follows in the last layer, for the same rows
};

class TransformerStack {
 public:
  // Uploads every layer. `use` is for the rows of a pass. The rotary table has config.n_positions
  // positions. Throws Error(kModel, kDevice).
  TransformerStack(Device& device, const WeightProvider& provider, const StackConfig& config,
                   Compute compute, WeightUse use, uint32_t max_rows);

  // Destination of the attention probabilities of some cross-attention heads.
  struct CrossWeights {
    Operand out;                 // f32 [heads of all layers, n_rows, positions of `cross`]
    std::vector<Operand> heads;  // [n_layers]: u32, the layer's heads; absent: none
    Operand lengths;             // u32 [n_sequences]: valid positions of `cross`
  };

  // Rows and caches of a causal pass. `cross` is null without cross-attention. Each sequence
  // attends to all positions of its page of `cross`, given in `cross_pages`.
  struct CausalContext {
    Operand rows;  // struct Row [n_rows]
    const KvCache* self = nullptr;
    const KvCache* cross = nullptr;
    Operand cross_pages;                    // i32 [n_sequences of `self`]
    const CrossWeights* weights = nullptr;  // may be null
    PassRowOrder order = PassRowOrder::kAny;
    bool rounds_attention = false;  // of prompts, see DevicePolicy
  };

  // Appends all layers, or a part of them, for `n_rows` rows of x, f32 [n_rows, d_model]. Only a
  // pass over a prompt (PassRowOrder::kOneSequence) without cross-attention may be in parts.
  void emit_causal(DispatchTable& table, uint32_t n_rows, const Operand& x,
                   const CausalContext& context, PassPart part = PassPart::kAll) const;
  // The first or last row of each sequence after the last layer.
  struct PooledRows {
    uint32_t kind;  // kPoolFirst or kPoolLast
    Operand x;      // f32 [n_sequences, d_model]
  };
  // The same for `n_sequences` of equal length, or packed, of any length: `starts` as in
  // AttentionParams, u32 [n_sequences + 1]. `rows`, struct Row [n_rows], has the positions for
  // rotary embeddings and head norms. With `pooled`, the last layer computes only those rows after
  // its attention: pooled->x has the result, x does not.
  void emit_bidirectional(DispatchTable& table, uint32_t n_rows, uint32_t n_sequences,
                          const Operand& x, const Operand& starts = {}, const Operand& rows = {},
                          const PooledRows* pooled = nullptr) const;
  // Appends a norm of the stack's kind: out [n_rows, d_model] of `out_dtype`, with an index as
  // below. An f32 `out` without index may alias x.
  void emit_norm(DispatchTable& table, std::string label, const NormWeights& weights,
                 uint32_t n_rows, const Operand& out, DType out_dtype, const Operand& x,
                 const Operand& index = {}) const;
  // Appends the norm after the last layer: out [n_rows, d_model] of `out_dtype`. With an index (u32
  // [n_rows]) row r reads x[index[r]].
  void emit_final_norm(DispatchTable& table, uint32_t n_rows, const Operand& out, DType out_dtype,
                       const Operand& x, const Operand& index) const;
  // Appends the computation of cross-attention keys and values of every layer from `source`, the
  // output of the other stack, [n_sequences * rows_per_sequence, d_model], into `cross`.
  void emit_cross_kv(DispatchTable& table, uint32_t n_sequences, uint32_t rows_per_sequence,
                     const Operand& source, DType source_dtype, const KvCache& cross,
                     const std::array<Operand, 2>& scratch) const;

  const StackConfig& config() const { return config_; }
  // The format of the stack's product inputs, except for prompts.
  DType activation_dtype() const { return activation_; }

 private:
  // In the parameters of kernels.
  static uint32_t code(DType dtype) { return static_cast<uint32_t>(dtype); }
  // The rows of a pass, and the format of its product inputs. `sequences`, struct Row [n] (?),
  // marks unused rows.
  struct PassRows {
    uint32_t n;
    DType dtype;
    Operand sequences = {};
  };
  // Input of the first product of a block: x after the norm, or x and the weights of a norm that
  // the product applies.
  struct BlockInput {
    Operand rows;
    DType dtype;
    Operand norm_weight = {};  // and the bias of a layer norm
  };
  BlockInput emit_norm_before(DispatchTable& table, std::string label, const NormWeights& weights,
                              const Weight& product, uint32_t n_rows, DType dtype,
                              const Operand& x) const;
  // The first product of a block.
  void emit_first(DispatchTable& table, std::string label, const LinearWeights& linear,
                  const PassRows& rows, const BlockInput& in, const Operand& out, DType out_dtype,
                  uint32_t activation = kActivationNone, bool gated = false) const;
  // Ends a block with post-norm; x has the sum with the residual.
  void emit_norm_after(DispatchTable& table, std::string label, const NormWeights& weights,
                       uint32_t n_rows, const Operand& x) const;
  void emit_ffn(DispatchTable& table, const std::string& label, const LayerWeights& layer,
                const PassRows& rows, const Operand& x) const;
  // The first half of a dense feed-forward block: its norm, and its products before the last. The
  // result, [n_rows, d_ffn], is in hidden_. `stem` begins the labels.
  BlockInput emit_hidden(DispatchTable& table, const std::string& stem, const NormWeights& norm,
                         const LinearWeights& up, const Weight& down, const PassRows& rows,
                         const Operand& x) const;
  // The block of a layer with experts.
  void emit_experts(DispatchTable& table, const std::string& label, const LayerWeights& layer,
                    const PassRows& rows, const Operand& x) const;
  // Adds the last product of a block, of `in`, to x.
  void emit_block_end(DispatchTable& table, const std::string& label, const LinearWeights& linear,
                      const NormWeights& post_norm, const PassRows& rows, const BlockInput& in,
                      const Operand& x) const;
  // Norms all queries of a row in qkv_ together, and all keys.
  void emit_whole_norms(DispatchTable& table, const std::string& label, const LayerWeights& layer,
                        uint32_t n_rows, DType dtype) const;
  // Norms and rotates the heads in qkv_; with a cache, writes keys and values to it.
  void emit_rope(DispatchTable& table, const std::string& label, uint32_t layer, uint32_t n_rows,
                 DType dtype, const Operand& rows, const KvCache* cache) const;
  uint32_t n_pairs(uint32_t layer) const;  // that are rotated in a head
  // Operands of a layer's rotation and head norms, in rope or paged_attention; absent without them.
  struct HeadOperands {
    Operand angles, q_norm_weight, k_norm_weight;
  };
  HeadOperands head_operands(uint32_t layer) const;
  // Whether attention norms and rotates the heads of a layer and writes keys and values.
  bool attention_writes_kv(uint32_t layer, const CausalContext& context) const;
  bool prepares_heads() const { return !rope_angles_.empty() || has_head_norms_; }
  float attention_scale() const;
  // The parameters of writing `n_rows` rows of keys and values to a cache.
  WriteKvParams write_params(const KvCache& cache, uint32_t n_rows, uint32_t row_stride,
                             DType dtype) const;
  // The parameters that self-attention and cross-attention of a causal pass share. `cache`: whose
  // keys they read. `out_dtype`: of the result.
  PagedAttentionParams attention_params(const PassRows& rows, const CausalContext& context,
                                        const KvCache& cache, DType out_dtype) const;
  // A causal layer up to the keys and values of its rows: queries are in qkv_, and keys and values
  // in the cache, or in qkv_ if attention writes them. Then its self-attention, and its
  // cross-attention.
  void emit_keys_and_values(DispatchTable& table, const std::string& label, uint32_t layer,
                            const PassRows& rows, const Operand& x,
                            const CausalContext& context) const;
  void emit_self_attention(DispatchTable& table, const std::string& label, uint32_t layer,
                           const PassRows& rows, const Operand& x,
                           const CausalContext& context) const;
  void emit_cross_attention(DispatchTable& table, const std::string& label, uint32_t layer,
                            const PassRows& rows, const Operand& x,
                            const CausalContext& context) const;
  // The attention probabilities of selected heads of the layer, for the queries in qkv_.
  void emit_cross_weights(DispatchTable& table, const std::string& label, uint32_t layer,
                          const PagedAttentionParams& cross, const CausalContext& context) const;

  StackConfig config_;
  DType activation_, prompt_activation_;  // for prompts of many rows
  std::vector<LayerWeights> layers_;
  NormWeights final_norm_;            // with norms before blocks
  Operand position_bias_;             // f32 [n_heads, 2 * bias_reach_ + 1] (?)
  uint32_t bias_reach_ = 0;           // the greatest distance of two rows of a pass
  std::vector<Operand> rope_angles_;  // f32 [n_positions, n_pairs, 2], for each of config.ropes
  bool has_head_norms_ = false;       // of either kind
  bool device_writes_kv_;             // DevicePolicy::attention_writes_kv
  // Scratch of one pass, for max_rows rows.
  Operand normed_;     // [max_rows, d_model]
  Operand qkv_;        // [max_rows, q_width + 2 * kv_width]
  Operand attended_;   // [max_rows, q_width]
  Operand hidden_;     // [max_rows, d_ffn]
  Operand gate_up_;    // [max_rows, 2 * d_ffn], if gated
  Operand block_out_;  // f32 [max_rows, d_model], with post-norms
  // With experts: hidden_ and gate_up_ have a row per slot.
  Operand router_logits_;   // f32 [max_rows, n_experts]
  Operand expert_ids_;      // u32 [max_rows, n_used]
  Operand expert_weights_;  // f32 [max_rows, n_used]
  Operand expert_groups_;   // of group_experts
  Operand expert_out_;      // f32 [max_rows * n_used, d_model]
};

}  // namespace vesper

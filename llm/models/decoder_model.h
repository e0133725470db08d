// A decoder on a device, of a language model or of Whisper. In: token ids. Out: logits.
//
// A stack of layers between an embedding and an output matrix. It appends passes over any rows of
// any sequences to tables, and has their KV cache. A decoder with cross-attention attends to
// sources, each with one page of keys and values. Used by llm/generation/decoding_loop, and by
// decoder/words/whisper_aligner with other sequences.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "llm/models/kv_cache.h"
#include "llm/models/transformer.h"
#include "llm/table/device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

class DecoderModel {
 public:
  struct Options {
    uint32_t n_ctx = 0;        // positions of a sequence; 0: the model's limit
    uint32_t n_sequences = 1;  // slots of the cache
    uint32_t max_rows = 1;     // per pass
    uint32_t max_logit_rows = 32;
    KvTypes kv_types = {};
    uint32_t page_rows = KvCache::kPageRows;
    bool recycles_pages = true;  // of layers with a sliding window
    uint32_t n_extra_pages = 0;  // see KvCache::Shape
    uint32_t n_sources = 0;      // for cross-attention
    uint32_t n_encoded = 0;      // sources encoded at once
  };

  // Uploads the weights. Throws Error(kModel, kDevice).
  DecoderModel(Device& device, const WeightProvider& provider, Compute compute,
               const Options& options);

  // The context of rows, struct Row [n], of the model's own sequences.
  TransformerStack::CausalContext context(const Operand& rows,
                                          PassRowOrder order = PassRowOrder::kAny) const;
  // Appends a pass of `n_rows` rows through all layers, or a part of it; its result stays in the
  // model.
  void emit_rows(DispatchTable& table, uint32_t n_rows,
                 const TransformerStack::CausalContext& context,
                 PassPart part = PassPart::kAll) const;
  // Appends logits of the last pass: f32 [n_rows, n_vocab] in `out`, of the rows in `index` (u32
  // [n_rows]) or of those from `first_row` on. With `rows`, struct Row [n_rows], unused rows are
  // skipped.
  void emit_logits(DispatchTable& table, uint32_t n_rows, const Operand& index, const Operand& out,
                   const Operand& rows = {}, uint32_t first_row = 0) const;

  // Appends the computation of cross-attention keys and values from the output of the other stack,
  // for the first `n` sources of set_encoded().
  void emit_cross_kv(DispatchTable& table, uint32_t n, const Operand& output, DType dtype) const;
  // Sets the sources that are encoded next, at most n_encoded; at first 0, 1, ... Throws
  // Error(kInternal) if one is not below n_sources, or there are too many.
  void set_encoded(std::span<const uint32_t> sources);

  const KvCache& cache() const { return cache_; }
  KvCache& cache() { return cache_; }
  const StackConfig& config() const { return stack_.config(); }
  uint32_t n_vocab() const { return n_vocab_; }
  uint32_t n_ctx() const { return options_.n_ctx; }
  // Positions of a source.
  uint32_t n_source_positions() const { return n_source_positions_; }
  // The largest sliding window of a layer; 0: none.
  uint32_t longest_window() const;
  const Options& options() const { return options_; }
  // i32 [n_sequences]: source of each sequence
  const Operand& sources() const { return sources_; }

 private:
  DecoderModel(Device& device, const WeightProvider& provider, const ModelConfig& config,
               Compute compute, const Options& options);

  Device& device_;
  Options options_;
  uint32_t n_vocab_, n_source_positions_ = 0;
  bool rounds_attention_;
  // Uploaded before the layers: the largest matrix is read while little else is resident.
  Weight embedding_, output_;  // [n_vocab, d_model]; the same if tied
  Operand position_;           // f32 [n_ctx, d_model], absent with rotary positions
  TransformerStack stack_;
  KvCache cache_;
  std::optional<KvCache> cross_;          // a sequence of one page per source
  std::array<Operand, 2> cross_scratch_;  // f32 [n_encoded * n_source_positions, 2 * kv_width]
  Operand sources_;
  std::vector<uint32_t> encoded_;  // [n_encoded]
  Operand x_;                      // f32 [max_rows, d_model]
  Operand normed_;                 // [max_logit_rows, d_model]
};

// Whether the file has quantized matrices, which products then read as such.
bool has_quantized_matrices(const WeightProvider& provider);

}  // namespace vesper

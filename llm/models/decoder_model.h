// A decoder on a device, of a language model or of Whisper: token ids in, logits out.
//
// A stack of layers with an embedding before it and the output behind it. Passes over any rows of
// any sequences are appended to tables; keys and values lie in its cache. A decoder with
// cross-attention attends to sources, each of which has a page of keys and values of its own. Used
// by llm/generation/decoding_loop, and by decoder/words/whisper_aligner with other sequences.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "llm/models/kv_cache.h"
#include "llm/models/transformer.h"
#include "llm/table/device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

class DecoderModel {
 public:
  struct Options {
    uint32_t n_ctx = 0;        // positions of a sequence; at most what the model is made for, if 0
    uint32_t n_sequences = 1;  // side by side
    uint32_t max_rows = 1;     // of a pass
    uint32_t max_logit_rows = 32;
    DType kv_dtype = DType::kF16;  // or kF32
    uint32_t page_rows = KvCache::kPageRows;
    bool recycles_pages = true;  // of layers with a sliding window
    uint32_t n_extra_pages = 0;  // see KvCache::Shape
    uint32_t n_sources = 0;      // for cross-attention
    uint32_t n_encoded = 0;      // sources that are encoded at once
  };

  // Uploads the weights. Throws Error(kModel, kDevice).
  DecoderModel(Device& device, const WeightProvider& provider, Compute compute,
               const Options& options);

  // The pass of rows, struct Row [n], of the model's own sequences. `is_prompt`: the rows are
  // successive positions of one sequence; those without a sequence come last.
  TransformerStack::CausalContext context(const Operand& rows, bool is_prompt = false) const;
  // Appends a pass of `n_rows` rows through all layers; what the output is computed from stays in
  // the model.
  void emit_rows(DispatchTable& table, uint32_t n_rows,
                 const TransformerStack::CausalContext& context) const;
  // Appends logits of the latest pass: f32 [n_rows, n_vocab] in `out`, of the rows that `index`
  // names (u32 [n_rows]), or of those from `first_row` on. Logits of rows without a sequence are
  // not computed where `rows`, struct Row [n_rows], says which these are.
  void emit_logits(DispatchTable& table, uint32_t n_rows, const Operand& index, const Operand& out,
                   const Operand& rows = {}, uint32_t first_row = 0) const;

  // Appends the computation of the cross-attention's keys and values from the other stack's output,
  // for `n` sources from the first encoded one on.
  void emit_cross_kv(DispatchTable& table, uint32_t n, const Operand& output, DType dtype) const;
  // Which source is encoded next: this one and those after it.
  void set_first_encoded(uint32_t source);

  const KvCache& cache() const { return cache_; }
  const StackConfig& config() const { return stack_.config(); }
  uint32_t n_vocab() const { return n_vocab_; }
  uint32_t n_ctx() const { return options_.n_ctx; }
  // Positions of a source.
  uint32_t n_source_positions() const { return n_source_positions_; }
  // Positions that a layer with a sliding window looks at; 0: there is none.
  uint32_t longest_window() const;
  const Options& options() const { return options_; }
  // i32 [n_sequences]: the source that each sequence attends to.
  const Operand& sources() const { return sources_; }

 private:
  DecoderModel(Device& device, const WeightProvider& provider, const ModelConfig& config,
               Compute compute, const Options& options);

  Device& device_;
  Options options_;
  uint32_t n_vocab_, n_source_positions_ = 0;
  bool rounds_attention_;
  // Before the layers: the largest matrix is read while the rest is not there yet.
  Weight embedding_, output_;  // [n_vocab, d_model]; the same where the file has one
  Operand position_;           // f32 [n_ctx, d_model], absent where positions are rotary
  TransformerStack stack_;
  KvCache cache_;
  std::optional<KvCache> cross_;          // a sequence of one page for each source
  std::array<Operand, 2> cross_scratch_;  // f32 [n_encoded * n_source_positions, 2 * kv_width]
  Operand sources_;
  uint32_t first_encoded_ = 0;
  Operand x_;       // f32 [max_rows, d_model]
  Operand normed_;  // [max_logit_rows, d_model]
};

// Whether matrices of the model are quantized in its file, which is then how products read them.
bool has_quantized_matrices(const WeightProvider& provider);

}  // namespace vesper

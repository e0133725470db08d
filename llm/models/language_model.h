// A language model on a device: token ids in, logits out.
//
// A stack of layers with an embedding before it and the output behind it. Passes over any rows of
// any sequences are appended to tables; keys and values live in its cache. Used by llm/generator.
#pragma once

#include <cstdint>

#include "llm/models/kv_cache.h"
#include "llm/models/transformer.h"
#include "llm/table/device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

class LanguageModel {
 public:
  struct Options {
    uint32_t n_ctx = 0;        // positions of a sequence; at most what the model is made for, if 0
    uint32_t n_sequences = 1;  // side by side
    uint32_t max_rows = 1;     // of a pass
    uint32_t max_logit_rows = 1;
    DType kv_dtype = DType::kF16;  // or kF32
    bool recycles_pages = true;    // of layers with a sliding window
    uint32_t n_extra_pages = 0;    // see KvCache::Shape
  };

  // Uploads the weights. Throws Error(kModel, kDevice).
  LanguageModel(Device& device, const WeightProvider& provider, Compute compute,
                const Options& options);

  // Appends the pass of `n_rows` rows, struct Row [n_rows], through all layers; what the output
  // is computed from stays in the model. `is_prompt`: the rows are successive positions of one
  // sequence; those without a sequence come last.
  void emit_rows(DispatchTable& table, uint32_t n_rows, const Operand& rows,
                 bool is_prompt = false) const;
  // Appends the logits of rows of the latest pass: f32 [n_rows, n_vocab] in `out`, of the rows that
  // `index` names (u32 [n_rows]), or of the first ones.
  void emit_logits(DispatchTable& table, uint32_t n_rows, const Operand& index,
                   const Operand& out) const;

  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }
  uint32_t n_vocab() const { return n_vocab_; }
  uint32_t n_ctx() const { return options_.n_ctx; }
  // Positions that a layer with a sliding window looks at; 0: there is none.
  uint32_t longest_window() const;
  const Options& options() const { return options_; }

 private:
  LanguageModel(Device& device, const WeightProvider& provider, const ModelConfig& config,
                Compute compute, const Options& options);

  Options options_;
  uint32_t n_vocab_;
  bool rounds_attention_;
  // Before the layers: the largest matrix is read while the rest is not there yet.
  Weight embedding_, output_;  // [n_vocab, d_model]; the same where the file has one
  TransformerStack stack_;
  KvCache cache_;
  Operand x_;       // f32 [max_rows, d_model]
  Operand normed_;  // [max_logit_rows, d_model]
};

// Whether matrices of the model are quantized in its file, which is then how products read them.
bool has_quantized_matrices(const WeightProvider& provider);

// The stack for contexts of `n_ctx` positions.
StackConfig with_context(const StackConfig& stack, uint32_t n_ctx);

}  // namespace vesper

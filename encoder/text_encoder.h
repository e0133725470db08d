// An encoder of text: token ids in, one row of d_model a token out.
//
// Token, position and type vectors, their norm, and a bidirectional stack of layers, whose row of
// llm/arch_descriptor the model's files name. Sequences of any lengths go through together, packed
// one after another without padding. Used by embedder/embedder, which pools the rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/device.h"
#include "llm/transformer.h"

namespace vesper {

class TextEncoder {
 public:
  // Uploads the weights and allocates buffers for `max_rows` tokens in at most `max_sequences`
  // sequences at once. Throws Error(kModel, kDevice).
  TextEncoder(Device& device, const WeightProvider& provider, Compute compute, uint32_t max_rows,
              uint32_t max_sequences);

  // Copies token ids to the device for the next pass, which has `n_rows` rows: no fewer than there
  // are tokens. The caller has checked ids and lengths (n_vocab, n_positions) and that all fits.
  void write(std::span<const std::span<const int32_t>> sequences, uint32_t n_rows);

  // Appends the pass over the first `n_rows` rows.
  void emit(DispatchTable& table, uint32_t n_rows) const;

  // f32 [max_rows, d_model]; of the rows behind the last token nothing is promised.
  const Operand& output() const { return x_; }
  // u32 [max_sequences + 1]: where sequences start, as in PoolParams; those behind the last are
  // empty.
  const Operand& starts() const { return starts_; }

  uint32_t d_model() const { return stack_.shape().d_model; }
  uint32_t n_vocab() const { return n_vocab_; }
  uint32_t n_positions() const { return n_positions_; }
  uint32_t max_rows() const { return max_rows_; }
  uint32_t max_sequences() const { return max_sequences_; }

 private:
  Device& device_;
  uint32_t n_vocab_, n_positions_, first_position_, max_rows_, max_sequences_;
  float norm_epsilon_;
  Weight embedding_;  // [n_vocab, d_model]
  Operand
      position_;  // f32 [first_position + n_positions, d_model], with the vector of type 0 in it
  NormWeights embed_norm_;
  TransformerStack stack_;
  Operand rows_;  // struct Row [max_rows]
  Operand starts_;
  Operand x_;                          // the residual stream
  std::vector<Row> host_rows_;         // [max_rows]
  std::vector<uint32_t> host_starts_;  // [max_sequences + 1]
};

}  // namespace vesper

// An encoder of text: token ids in, one row of d_model a token out.
//
// Token, position and type vectors, their norm, and a stack of layers: of BERT and its kin, whose
// attention is bidirectional, or of a language model that was trained to embed. Sequences of any
// lengths go through together, packed one after another without padding. Used by embedder/embedder,
// which pools the rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/models/transformer.h"
#include "llm/table/device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

struct TextEncoderLimits {
  uint32_t n_vocab = 0, d_model = 0;
  uint32_t n_positions = 0;  // the most tokens that a text can have
};
// Of a model that encodes text, or of a language model used so. Throws Error(kModel) if the files
// hold neither, or if the engine cannot run it.
TextEncoderLimits text_encoder_limits(const WeightProvider& provider);

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

  uint32_t d_model() const { return stack_.config().d_model; }
  uint32_t n_vocab() const { return limits_.n_vocab; }
  uint32_t n_positions() const { return limits_.n_positions; }
  uint32_t max_rows() const { return max_rows_; }
  uint32_t max_sequences() const { return max_sequences_; }

 private:
  Device& device_;
  TextEncoderLimits limits_;
  uint32_t max_rows_, max_sequences_;
  // Before the layers: the largest matrix is read while the rest is not there yet.
  Weight embedding_;  // [n_vocab, d_model]
  TransformerStack stack_;
  // f32 [first_position + n_positions, d_model], absent where positions are rotary and
  // there are no token types.
  Operand position_;
  NormWeights embed_norm_;  // absent where there is none
  Operand rows_;            // struct Row [max_rows]
  Operand starts_;
  Operand x_;                          // the residual stream
  std::vector<Row> host_rows_;         // [max_rows]
  std::vector<uint32_t> host_starts_;  // [max_sequences + 1]
};

}  // namespace vesper

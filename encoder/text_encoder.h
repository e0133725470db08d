// An encoder of text. In: token ids. Out: one row of d_model per token or per sequence.
//
// Token, position and type embeddings, their norm, and a stack of layers, of BERT-like models with
// bidirectional attention, or of a language model that was trained to embed. Sequences of any
// length are packed without padding. Used by embedder/embedder, which pools the rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "llm/models/transformer.h"
#include "llm/table/device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

struct TextEncoderLimits {
  uint32_t n_vocab = 0, d_model = 0;
  uint32_t n_positions = 0;  // longest sequence in tokens
};
// Of a text encoder, or a language model used as one. Throws Error(kModel) if the files have
// neither, or the engine cannot run it.
TextEncoderLimits text_encoder_limits(const WeightProvider& provider);

class TextEncoder {
 public:
  struct Options {
    uint32_t max_rows = 0, max_sequences = 0;  // of a pass: tokens and sequences
    // kPoolFirst, kPoolLast: the output has only this row of each sequence. kPoolMean: all rows.
    uint32_t pooling = kPoolMean;
    bool reads_pairs = false;  // sequences may have tokens of type 1
  };
  // Uploads the weights and allocates buffers. Throws Error(kModel, kDevice).
  TextEncoder(Device& device, const WeightProvider& provider, Compute compute,
              const Options& options);

  // Copies token ids to the device for the next pass of `n_rows` rows, at least one per token. With
  // `second_begins`, [sequences.size()], the tokens of a sequence are of type 1 from this one on,
  // if the model has types. The caller has checked ids, lengths (n_vocab, n_positions) and sizes.
  void write(std::span<const std::span<const int32_t>> sequences, uint32_t n_rows,
             std::span<const uint32_t> second_begins = {});

  // Emits the pass over the first `n_rows` rows and `n_sequences` sequences.
  void emit(DispatchTable& table, uint32_t n_rows, uint32_t n_sequences) const;

  // All rows, f32 [max_rows, d_model], or one row per sequence, f32 [max_sequences, d_model]. Those
  // without a token or sequence are undefined.
  const Operand& output() const { return pooled_ ? pooled_->x : x_; }
  // u32 [max_sequences + 1]: first rows of sequences, as in PoolParams; sequences after the last
  // are empty. Absent if the output has one row per sequence.
  Operand starts() const { return pooled_ ? Operand{} : starts_; }

  uint32_t d_model() const { return stack_.config().d_model; }
  uint32_t n_vocab() const { return limits_.n_vocab; }
  uint32_t n_positions() const { return limits_.n_positions; }
  uint32_t max_rows() const { return options_.max_rows; }
  uint32_t max_sequences() const { return options_.max_sequences; }

 private:
  Device& device_;
  TextEncoderLimits limits_;
  Options options_;
  // Uploaded before the layers: the largest matrix is read while little else is resident.
  Weight embedding_;  // [n_vocab, d_model]
  TransformerStack stack_;
  // f32 [first_position + n_positions, d_model]; absent with rotary positions and no token types.
  // With pairs and types the same for type 1 behind it.
  Operand position_;
  int32_t second_type_ = 0;  // from a position to the same one of type 1; 0: no types
  NormWeights embed_norm_;   // may be absent
  Operand rows_;             // struct Row [max_rows]
  Operand starts_;
  Operand x_;  // residual stream
  std::optional<TransformerStack::PooledRows> pooled_;
  std::vector<Row> host_rows_;         // [max_rows]
  std::vector<uint32_t> host_starts_;  // [max_sequences + 1]
};

}  // namespace vesper

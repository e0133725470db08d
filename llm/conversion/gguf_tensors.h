// How tensors of GGUF files differ from those of Hugging Face: the family's row, and the order of
// rows of queries and keys.
#pragma once

#include <cstdint>
#include <string_view>

#include "llm/weights/model_families.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// The row that describes the GGUF files of a model's family, or null if GGUF has no name for it.
const ModelFamily* gguf_family(const WeightProvider& weights);
// The row that describes the Hugging Face files of a model's family, or null.
const ModelFamily* hugging_face_family(const WeightProvider& weights);

// Integers are no weights.
bool is_integer(DType dtype);

// The rows of each head are permuted from one rotary pairing to the other.
struct RotaryOrder {
  uint32_t head_dim = 0;     // rows of a head; 0: rows keep their order
  uint32_t n_pairs = 0;      // of a head; rows behind them keep their place
  bool interleaves = false;  // from one element of each half to neighbours; otherwise back
  uint64_t source_of(uint64_t row) const;
};

// The order of a tensor with a canonical name between files with interleaved pairs (or not) and
// others.
RotaryOrder rotary_order(const StackConfig& stack, std::string_view name, bool from_interleaved,
                         bool to_interleaved);

}  // namespace vesper

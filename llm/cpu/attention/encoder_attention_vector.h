// Attention on vectors: the part of encoder_attention.h for everything that AMX does not do. bf16
// is multiplied in pairs where the CPU has AVX512-BF16, all else in f32.
//
// Scores are computed transposed, keys down and queries across, as on tiles: a lane of a vector is
// a query. Keys, and values in f32, that have the products' format are read where they lie.
#pragma once

#include "llm/cpu/attention/attention_rows.h"
#include "llm/cpu/attention/encoder_attention.h"

namespace vesper {

// Query rows that go through together, at most: two vectors of the widest.
inline constexpr size_t kVectorAttentionQueries = 32;

// What multiplies, for people.
const char* vector_attention_variant(const AttentionParams& params);

size_t vector_attention_scratch_bytes(const AttentionParams& params);
// Query rows [first_row, first_row + n_rows) of one head. `scratch` is aligned to 64 bytes.
void vector_attention(const AttentionParams& params, const AttentionOperands& operands,
                      const AttentionSequence& sequence, size_t head, size_t first_row,
                      size_t n_rows, void* scratch);

}  // namespace vesper

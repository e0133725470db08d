// Attention of bf16 rows on AMX tiles: the part of encoder_attention.h for CPUs that have them.
// Only called where cpu_features().amx.
//
// Scores are computed transposed, keys down and queries across: then a lane of a vector is a query,
// maxima and sums need no reduction within a vector, the probabilities of two keys laid side by
// side are what the second product wants, and keys need no transposition.
#pragma once

#include "llm/cpu/attention/attention_rows.h"
#include "llm/cpu/attention/encoder_attention.h"

namespace vesper {

size_t amx_attention_scratch_bytes(const AttentionParams& params);
// Query rows [first_row, first_row + n_rows) of one head. `scratch` is aligned to 64 bytes.
void amx_attention(const AttentionParams& params, const AttentionOperands& operands,
                   const AttentionSequence& sequence, size_t head, size_t first_row, size_t n_rows,
                   void* scratch);

}  // namespace vesper

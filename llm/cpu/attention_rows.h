// Where a head of a row of an attention command lies, in elements from the start of each operand.
#pragma once

#include <cstddef>

#include "shaders/kernel_params.h"

namespace vesper {

inline size_t attention_q_offset(const AttentionParams& p, size_t sequence, size_t head,
                                 size_t row) {
  return (sequence * p.rows_per_sequence + row) * p.q_row_stride + head * p.head_dim;
}
inline size_t attention_k_offset(const AttentionParams& p, size_t sequence, size_t head,
                                 size_t row) {
  return (sequence * p.rows_per_sequence + row) * p.k_row_stride +
         head / (p.n_heads / p.n_kv_heads) * p.head_dim;
}
inline size_t attention_v_offset(const AttentionParams& p, size_t sequence, size_t head,
                                 size_t row) {
  return (sequence * p.rows_per_sequence + row) * p.v_row_stride +
         head / (p.n_heads / p.n_kv_heads) * p.head_dim;
}
inline size_t attention_out_offset(const AttentionParams& p, size_t sequence, size_t head,
                                   size_t row) {
  return (sequence * p.rows_per_sequence + row) * p.out_row_stride + head * p.head_dim;
}

}  // namespace vesper

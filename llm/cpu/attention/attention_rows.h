// Where a head of a row of an attention command lies, in elements from the start of each operand,
// and which rows it sees; of paged attention, which positions, and which rows are a prompt's.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shaders/kernel_params.h"

namespace vesper {

// The rows of one sequence: where they start among all rows, and how many they are.
struct AttentionSequence {
  size_t first = 0;
  size_t n_rows = 0;
};

inline size_t attention_q_offset(const AttentionParams& p, const AttentionSequence& sequence,
                                 size_t head, size_t row) {
  return (sequence.first + row) * p.q_row_stride + head * p.head_dim;
}
inline size_t attention_k_offset(const AttentionParams& p, const AttentionSequence& sequence,
                                 size_t head, size_t row) {
  return (sequence.first + row) * p.k_row_stride + head / (p.n_heads / p.n_kv_heads) * p.head_dim;
}
inline size_t attention_v_offset(const AttentionParams& p, const AttentionSequence& sequence,
                                 size_t head, size_t row) {
  return (sequence.first + row) * p.v_row_stride + head / (p.n_heads / p.n_kv_heads) * p.head_dim;
}
inline size_t attention_out_offset(const AttentionParams& p, const AttentionSequence& sequence,
                                   size_t head, size_t row) {
  return (sequence.first + row) * p.out_row_stride + head * p.head_dim;
}

// The rows that `row` of a sequence sees: [begin, end).
struct VisibleRows {
  size_t begin, end;
};
inline VisibleRows visible_rows(const AttentionParams& p, size_t n_rows, size_t row) {
  VisibleRows rows{0, n_rows};
  if (p.window != 0) {
    rows.begin = row > p.window ? row - p.window : 0;
    rows.end = std::min<size_t>(n_rows, row + p.window + 1);
  }
  if (p.causal != 0) rows.end = std::min<size_t>(rows.end, row + 1);
  return rows;
}
// What a row of distance takes from a score (Press et al., "Train Short, Test Long", 2022): of the
// first heads, a power of two of them, a geometric sequence that ends with 2^-8; of the others
// those between its members.
inline float alibi_slope(const AttentionParams& p, size_t head) {
  const auto n = static_cast<float>(std::bit_floor(p.n_heads));
  const auto h = static_cast<float>(head);
  return std::exp2(h < n ? -8.0f * (h + 1) / n : -4.0f * (2 * (h - n) + 1) / n);
}
inline bool sees_all_rows(const AttentionParams& p) { return p.causal == 0 && p.window == 0; }

// Queries of paged attention that go through their pages together: heads that share a kv head,
// beams that look at one window.
inline constexpr uint32_t kHeadsAtOnce = 4, kQueriesAtOnce = 5;

// The positions that a row of paged attention sees: [begin, end).
struct VisiblePositions {
  uint32_t begin, end;
};
inline VisiblePositions visible_positions(const PagedAttentionParams& p, const Row& row) {
  const uint32_t end = p.kv_length != 0 ? p.kv_length : static_cast<uint32_t>(row.position) + 1;
  return {p.window != 0 && p.window < end ? end - p.window : 0, end};
}

// Whether neither neighbour of row r is of its sequence.
inline bool is_alone(std::span<const Row> rows, size_t r) {
  return (r == 0 || rows[r - 1].sequence != rows[r].sequence) &&
         (r + 1 == rows.size() || rows[r + 1].sequence != rows[r].sequence);
}

}  // namespace vesper

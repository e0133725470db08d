// Visible positions of a row of paged_attention, and rows that share the reads of pages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shaders/kernel_params.h"

namespace vesper {

// Queries of paged attention that are processed together: heads of one kv head, beams on one
// window.
inline constexpr uint32_t kHeadsAtOnce = 4, kQueriesAtOnce = 5;

// The positions [begin, end) that a row of paged attention sees.
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

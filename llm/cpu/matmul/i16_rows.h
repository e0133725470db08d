// Rows of a product as 16-bit whole numbers: i16 [padded_n_in], then what one of each 64 is worth,
// f32 [n_blocks]. Shared by what writes them (matmul.cc) and what multiplies them
// (panel_product_i16.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/cpu/matmul/weight_layout.h"

namespace vesper {

inline constexpr uint32_t kI16Inputs = 64;  // of a block; the last may have 32
// The largest magnitudes: 64 products of them fit 32 bits. Rows have the greater one, since a few
// of their numbers are far larger than the others.
inline constexpr int32_t kI16RowLimit = 8191, kI16WeightLimit = 4095;

struct I16Row {
  explicit I16Row(const WeightLayout& layout)
      : n_blocks((layout.padded_n_in + kI16Inputs - 1) / kI16Inputs),
        scales_offset(layout.padded_n_in * sizeof(int16_t)),
        bytes(round_up(scales_offset + n_blocks * sizeof(float), 64)) {}

  uint32_t n_blocks;
  size_t scales_offset;
  size_t bytes;
};

}  // namespace vesper

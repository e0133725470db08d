// The layout of matrices on a VulkanDevice. In: a matrix of a file. Out: rows as the shaders read
// them (shaders/weights.glsl): row-major, padded with zeros to a multiple of 32 columns, in f32,
// f16 or int8 with a scale per row; or quantized as in the file (block_layout.h); or f16 in the
// order of matrices, so that a subgroup loads the matrices that it multiplies directly into
// registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "llm/dtype/quantized_row.h"
#include "llm/table/device.h"

namespace vesper {

// Bit of a Weight's format beside the DType: products may use f16 (matrix units).
inline constexpr uint32_t kWeightHalfProducts = 0x100;
// Likewise, of quantized blocks: products of few rows may use int8.
inline constexpr uint32_t kWeightInt8Products = 0x80;
// Likewise, of f16: in the order of matrices, and there with gate rows beside their up rows.
inline constexpr uint32_t kWeightInMatrices = 0x40, kWeightGatesInMatrices = 0x20;

struct WeightLayout {
  DType format = DType::kF16;  // kF32, kF16 or kI8; not used if `blocks` has bits
  BlockFormat blocks;          // of a quantized matrix, otherwise 0 bits
  uint32_t n_out = 0, n_in = 0;
  // 0: row-major. Otherwise the weight is a grid of square matrices, [n_out / matrix_side, padded
  // n_in / matrix_side], each stored without gaps, and this is the number of their rows. A matrix
  // of 8 rows is row-major. Of one with 16 rows, the eight elements of lane 0 come first, then
  // those of lane 1 and so on: matrix_layout.h says which ones a lane has.
  uint32_t matrix_side = 0;
  // In the order of matrices, every four gate rows are followed by their four up rows.
  bool has_gates = false;
  uint64_t row_bytes = 0;    // padding included
  uint64_t scale_bytes = 0;  // scales of a row, in a separate buffer; 0: none
  uint64_t bytes() const { return row_bytes * n_out; }
  // write_rows writes multiples of this number of rows.
  uint32_t row_unit() const { return matrix_side != 0 ? matrix_side : 1; }
  uint64_t all_scale_bytes() const { return scale_bytes * n_out; }
  uint32_t weight_format() const;  // without kWeightHalfProducts
};

// The storage format of a matrix. f16 if that is exact (f16 files), if products use f16, or if the
// file is quantized; otherwise f32. int8 files stay int8; other files that are not quantized become
// int8 if `compute` is int8. Quantized files stay quantized, except for products of many rows only.
// Throws Error(kModel) naming the tensor for parts that do not match or a format that has no
// numbers. `matrix_side`: rows of the matrices in whose order the device can read f16 weights; 0:
// none.
WeightLayout weight_layout(const MatrixSource& source, WeightUse use, Compute compute,
                           uint32_t matrix_side);

// Writes rows [first, first + n), both multiples of row_unit(), to `out`, and their scales to
// `scales`, [n].
void write_rows(const MatrixSource& source, const WeightLayout& layout, uint32_t first, uint32_t n,
                std::byte* out, std::byte* scales);

}  // namespace vesper

// The layout of matrices on a VulkanDevice. In: a matrix of a file. Out: rows as the shaders read
// them (shaders/weights.glsl): row-major, padded with zeros to a multiple of 32 columns, in f32,
// f16 or int8 with a scale per row; or quantized as in the file (block_layout.h). Or f16 in the
// order of matrices, so that the subgroup that multiplies a matrix loads it without detours.
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
  // Not 0: in the order of square matrices with this number of rows and columns, [n_out /
  // matrix_side, padded n_in / matrix_side]. In a matrix of 16 rows, lane l of 32 has eight
  // successive elements: element e is at row l / 4 + e / 4 * 8 and column e / 2 % 2 * 8 + l % 4 * 2
  // + e % 2 (matrix_layout.h). A matrix of 8 rows is row-major.
  uint32_t matrix_side = 0;
  // In that order, every four gate rows are followed by their four up rows.
  bool has_gates = false;
  uint64_t row_bytes = 0;    // padding included
  uint64_t scale_bytes = 0;  // scales of a row, in a separate buffer; 0: none
  uint64_t bytes() const { return row_bytes * n_out; }
  // Rows that are written together.
  uint32_t row_unit() const { return matrix_side != 0 ? matrix_side : 1; }
  uint64_t all_scale_bytes() const { return scale_bytes * n_out; }
  uint32_t weight_format() const;  // without kWeightHalfProducts
};

// The storage format of a matrix. f16 if that is exact (f16 files), if products use f16, or if the
// file is quantized; otherwise f32. int8 files stay int8; other files that are not quantized become
// int8 if `compute` is int8. Quantized files stay quantized, except for products of many rows only.
// Throws Error(kModel) naming the tensor for parts that do not match or a format that has no
// numbers. `matrix_side`: of the device's matrices in whose order f16 weights can be stored, or 0.
WeightLayout weight_layout(const MatrixSource& source, WeightUse use, Compute compute,
                           uint32_t matrix_side);

// Writes rows [first, first + n), whole units, to `out`, and their scales to `scales`, [n].
void write_rows(const MatrixSource& source, const WeightLayout& layout, uint32_t first, uint32_t n,
                std::byte* out, std::byte* scales);

}  // namespace vesper

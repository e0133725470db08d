// How a VulkanDevice stores matrices: in comes a matrix as a file has it, out go rows in the form
// that the shaders read (shaders/weights.glsl): row-major, padded with zeros to a multiple of 32
// columns, in f32, f16 or int8 with a scale per row; or quantized as in the file (block_layout.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "llm/dtype/quantized_row.h"
#include "llm/table/device.h"

namespace vesper {

// In a Weight's format, beside the DType: products may be made of f16 (the matrix units), because
// the choice of numbers permits it.
inline constexpr uint32_t kWeightHalfProducts = 0x100;

struct WeightLayout {
  DType format = DType::kF16;  // kF32, kF16 or kI8; no matter where `blocks` has bits
  BlockFormat blocks;          // of a quantized matrix, else of 0 bits
  uint32_t n_out = 0, n_in = 0;
  uint64_t row_bytes = 0;    // padding included
  uint64_t scale_bytes = 0;  // a row's scales, in a buffer of their own; 0: there are none
  uint64_t bytes() const { return row_bytes * n_out; }
  uint64_t all_scale_bytes() const { return scale_bytes * n_out; }
  uint32_t weight_format() const;  // but for kWeightHalfProducts
};

// The form a matrix takes. f16 is what a matrix becomes whose numbers it holds exactly (f16 files),
// and any other, rounded, if products are of f16 anyway or the file is quantized; else f32. An int8
// file stays int8, and every other that is not quantized becomes it if `compute` is int8. What is
// quantized in the file stays so, unless it is for products of many rows alone. Throws
// Error(kModel) naming the tensor for parts that do not fit together or a format that is no number.
WeightLayout weight_layout(const MatrixSource& source, WeightUse use, Compute compute);

// Writes rows [first, first + n) to `out`, and their scales to `scales`, [n] of them.
void write_rows(const MatrixSource& source, const WeightLayout& layout, uint32_t first, uint32_t n,
                std::byte* out, std::byte* scales);

}  // namespace vesper

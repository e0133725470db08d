// Rows of quantized matrices: codes, one per byte, and scales with the file's precision.
//
// Each format has its own function to unpack blocks (llm/dtype/dtype.cc). The devices pack the rows
// for their kernels (llm/cpu/matmul/packed_blocks.h, llm/vulkan/kernels/block_layout.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "llm/dtype/tensor_view.h"

namespace vesper {

// Scales as bits (16-bit ones in the low half) and codes of `n` elements.
struct QuantizedRow {
  std::vector<uint8_t> codes;                      // [n]
  std::vector<uint32_t> scales, minimums;          // [n / group], for kParts f16 [n / 256]
  std::vector<int8_t> part_scales, part_minimums;  // [n / group], for kParts only
};

// The format of a tensor's rows; empty if it is not quantized in blocks (f32, f16, i8 with a scale
// per row).
std::optional<BlockFormat> block_format(const TensorView& tensor);
// A format that holds the rows of all these matrices exactly (except f32 rounding): their common
// one, otherwise f32 scales and minimums for the smallest group. Empty if one is not quantized, or
// for a convolution, whose elements are reordered.
std::optional<BlockFormat> block_format(const MatrixSource& source);

// Reads row `row` of a quantized matrix in its own or a common format.
void read_quantized_row(const TensorView& tensor, uint64_t row, const BlockFormat& as,
                        QuantizedRow& out);

// Elements [first, first + n) of a quantized tensor as f32. Both are multiples of row_unit().
void dequantize(const TensorView& tensor, uint64_t first, uint64_t n, float* out);

}  // namespace vesper

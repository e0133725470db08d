// Rows of quantized matrices: codes, one a byte, and scales, as exact as the file has them.
//
// Each format's own function takes its blocks apart (llm/dtype/dtype.cc). The devices pack
// the rows as their kernels want them (llm/cpu/matmul/packed_blocks.h, llm/vulkan/block_layout.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "llm/dtype/tensor_view.h"

namespace vesper {

// The scales, as bits of the kind (low half of 16-bit ones), and the codes of `n` elements.
struct QuantizedRow {
  std::vector<uint8_t> codes;                      // [n]
  std::vector<uint32_t> scales, minimums;          // [n / group], of kParts f16 [n / 256]
  std::vector<int8_t> part_scales, part_minimums;  // [n / group], of kParts only
};

// The format of a tensor's rows, or nothing if it is not quantized in blocks (f32, f16, i8 with a
// scale a row).
std::optional<BlockFormat> block_format(const TensorView& tensor);
// The one that holds the rows of all these matrices exactly (to a rounding of f32): theirs if it is
// one, else scales and minimums in f32 for groups as small as the smallest. Nothing if one of them
// is not quantized, or for a convolution, whose elements are reordered.
std::optional<BlockFormat> block_format(const MatrixSource& source);

// Reads row `row` of a quantized matrix in that format, its own or the common one above.
void read_quantized_row(const TensorView& tensor, uint64_t row, const BlockFormat& as,
                        QuantizedRow& out);

// Elements [first, first + n) of a quantized tensor as f32. Both are multiples of row_unit().
void dequantize(const TensorView& tensor, uint64_t first, uint64_t n, float* out);

}  // namespace vesper

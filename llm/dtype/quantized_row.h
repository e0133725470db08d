// What the quantized formats have in common, so that one layout and one product serve them all:
// every number of a row is a small whole one (its code) times a scale that a group of neighbours
// shares, and begins at a zero code or at a minimum.
//
// In comes a tensor as a file has it; out go a row's codes, one a byte, and its scales, as exact as
// the file has them. The devices pack them as their kernels want (llm/cpu/matmul/packed_blocks.h,
// llm/vulkan/block_layout.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "llm/dtype/tensor_view.h"

namespace vesper {

// How the scales, and the minimums where there are some, are kept.
enum class ScaleKind : uint32_t {
  kF16 = 0,
  kBF16 = 1,
  kF32 = 2,
  // A scale is an f16 for 256 numbers times a signed byte for the group; likewise a minimum.
  kParts = 3,
};

inline constexpr uint32_t kPartsBlock = 256;  // numbers that share the f16 of kParts

struct BlockFormat {
  uint32_t bits = 0;  // of a code: 2, 3, 4, 5, 6 or 8
  ScaleKind scale = ScaleKind::kF16;
  uint32_t group = 32;       // numbers a scale serves: 16, 32, 64 or 128
  bool has_minimum = false;  // value = scale * code + minimum
  uint32_t zero = 0;         // value = scale * (code - zero), where there is no minimum
  friend bool operator==(const BlockFormat&, const BlockFormat&) = default;
};

// The scales, as bits of the kind (low half of 16-bit ones), and the codes of one row of n.
struct QuantizedRow {
  std::vector<uint8_t> codes;                      // [n]
  std::vector<uint32_t> scales, minimums;          // [n / group], of kParts f16 [n / 256]
  std::vector<int8_t> part_scales, part_minimums;  // [n / group], of kParts only
};

// The format of a tensor's rows, or nothing if it is not quantized so (f32, f16, a scale a row).
std::optional<BlockFormat> block_format(const TensorView& tensor);
// The one that holds the rows of all these matrices exactly (to a rounding of f32): theirs if it is
// one, else scales and minimums in f32 for groups as small as the smallest. Nothing if one of them
// is not quantized, or its numbers lie otherwise than by row (a convolution).
std::optional<BlockFormat> block_format(const MatrixSource& source);

// Reads row `row` of a quantized matrix in that format, its own or the common one above.
void read_quantized_row(const TensorView& tensor, uint64_t row, const BlockFormat& as,
                        QuantizedRow& out);

// The scale and minimum (of code 0) of the group that number `i` of the row lies in.
struct ScaleAndMinimum {
  float scale, minimum;
};
ScaleAndMinimum group_scale(const BlockFormat& format, const QuantizedRow& row, uint32_t i);

// Whether the format has its scales and biases beside it (kAffine*).
bool is_affine(DType dtype);
// Row `row` of a tensor in such a format as f32 [shape[1]].
void read_affine_row(const TensorView& tensor, uint64_t row, float* out);

}  // namespace vesper

// Weight formats: one row of a table for each.
//
// A row says how a format's blocks are laid out in a file and takes them apart. A format that has
// no row is a load error that names it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace vesper {

// Formats of numbers in files, in buffers and between commands. The values are stable: shaders and
// command parameters hold them.
enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kI8 = 3,  // with one f32 scale per row beside it: value = i8 * scale
  kQ4_0 = 4,
  kQ4_1 = 5,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kI16 = 9,
  kI32 = 10,
  kQ2_K = 11,
  kQ3_K = 12,
  kQ4_K = 13,
  kQ5_K = 14,
  kQ6_K = 15,
  // MLX's: codes of 2 to 8 bits in one stream, the lowest bits first, with a scale and a bias
  // beside it for every 32, 64 or 128 of a row: value = scale * code + bias.
  kAffine2 = 16,
  kAffine3 = 17,
  kAffine4 = 18,
  kAffine5 = 19,
  kAffine6 = 20,
  kAffine8 = 21,
  kIQ4_NL = 22,  // codes of 4 bits that stand for 16 unevenly spaced values
};

// How the scales, and the minimums where there are some, are kept.
enum class ScaleKind : uint32_t {
  kF16 = 0,
  kBF16 = 1,
  kF32 = 2,
  // A scale is an f16 for 256 elements times a signed byte for the group; likewise a minimum.
  kParts = 3,
};

inline constexpr uint32_t kPartsBlock = 256;  // elements that share the f16 of kParts

// What the quantized formats have in common: an element is a small integer, its code, and a group
// of neighbours shares a scale.
struct BlockFormat {
  uint32_t bits = 0;  // of a code: 2, 3, 4, 5, 6 or 8; 0 of a format that is not quantized so
  ScaleKind scale = ScaleKind::kF16;
  uint32_t group = 32;       // elements a scale serves: 16, 32, 64 or 128
  bool has_minimum = false;  // value = scale * code + minimum
  uint32_t zero = 0;         // value = scale * (code - zero), where there is no minimum
  friend bool operator==(const BlockFormat&, const BlockFormat&) = default;
};

// Where the parts of one block are written. A format writes those that it has.
struct UnpackedBlock {
  uint8_t* codes;  // [block]
  // Bits as the file has them, f16. [block / group], of kParts [1].
  uint32_t *scales, *minimums;
  int8_t *part_scales, *part_minimums;  // [block / group], of kParts only
};

// How a weight format is laid out: `block` consecutive elements of a row take `block_bytes`.
struct DTypeDescriptor {
  DType dtype;
  const char* name;      // as the file formats spell it, lower case: "f16", "q5_1"
  uint32_t block;        // elements a block
  uint32_t block_bytes;  // bytes a block
  int32_t ggml_type;     // its number in ggml files and GGUF, -1 if none
  // Plain numbers: writes `n` elements that start at `source` as f32. `source` need not be aligned.
  // Null for the quantized formats.
  void (*to_f32)(const void* source, float* out, uint64_t n);
  // Quantized formats: what a block is made of, and the function that takes one apart. Of kAffine*
  // the tensor tells `scale` and `group`, and `unpack` writes codes only.
  BlockFormat blocks;
  void (*unpack)(const uint8_t* block, const UnpackedBlock& to);
};

std::span<const DTypeDescriptor> dtypes();  // all rows
const DTypeDescriptor& dtype_descriptor(DType dtype);
// The row with that ggml number or that name, or null.
const DTypeDescriptor* find_ggml_dtype(int32_t ggml_type);
const DTypeDescriptor* find_dtype(std::string_view name);

// Bytes of `n` elements. Throws Error(kModel) if `n` is no multiple of the block, or on overflow.
uint64_t dtype_bytes(DType dtype, uint64_t n);

}  // namespace vesper

// Weight formats: a table with one row per format.
//
// A row has the layout of a format's blocks in a file and the function that unpacks them. A format
// without a row is a load error that names it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace vesper {

// Number formats in files, buffers and commands. The values are stable, because shaders and command
// parameters contain them.
enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kI8 = 3,  // with one f32 scale per row: value = i8 * scale
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
  // MLX's: codes of 2 to 8 bits in one stream, lowest bits first, with a separate scale and bias
  // for every 32, 64 or 128 elements of a row: value = scale * code + bias.
  kAffine2 = 16,
  kAffine3 = 17,
  kAffine4 = 18,
  kAffine5 = 19,
  kAffine6 = 20,
  kAffine8 = 21,
  kIQ4_NL = 22,  // 4-bit codes of 16 unevenly spaced values
  kIQ4_XS = 23,  // the same in blocks of 256
  // OCP Microscaling Formats (2023): E2M1 elements, 32 of them with one E8M0 scale.
  kMXFP4 = 24,
  // Ternary weights: -1, 0 or 1 times the f16 scale of 256 elements.
  kTQ1_0 = 25,  // five elements in a byte
  kTQ2_0 = 26,  // four
};

// Storage of scales and minimums.
enum class ScaleKind : uint32_t {
  kF16 = 0,
  kBF16 = 1,
  kF32 = 2,
  // A scale is an f16 per 256 elements times a signed byte per group; minimums likewise.
  kParts = 3,
};

inline constexpr uint32_t kPartsBlock = 256;  // elements that share the f16 of kParts

// A quantized format: an element is a small integer (its code), and a group of neighbours shares a
// scale.
struct BlockFormat {
  uint32_t bits = 0;  // of a code: 2, 3, 4, 5, 6 or 8; 0: not quantized in blocks
  ScaleKind scale = ScaleKind::kF16;
  uint32_t group = 32;       // elements per scale: 16, 32, 64 or 128
  bool has_minimum = false;  // value = scale * code + minimum
  uint32_t zero = 0;         // value = scale * (code - zero), without a minimum
  friend bool operator==(const BlockFormat&, const BlockFormat&) = default;
};

// Output of unpacking blocks. A format writes the parts that it has; the others may be null.
struct UnpackedBlocks {
  uint8_t* codes;  // [n_blocks, block]
  // Bits of the row's ScaleKind, f16 for kParts. [n_blocks]
  uint32_t *scales, *minimums;
  int8_t *part_scales, *part_minimums;  // [n_blocks, block / group], for kParts only
};

// The layout of a weight format: `block` consecutive elements of a row take `block_bytes`.
struct DTypeDescriptor {
  DType dtype;
  const char* name;      // as in file formats, lower case: "f16", "q5_1"
  uint32_t block;        // elements per block
  uint32_t block_bytes;  // bytes per block
  int32_t ggml_type;     // number in ggml files and GGUF, -1 if none
  // Plain numbers: writes `n` elements from `source`, which may be unaligned, as f32. Null for
  // quantized formats.
  void (*to_f32)(const void* source, float* out, uint64_t n);
  // Quantized formats: the contents of a block and the function that unpacks blocks. For kAffine*
  // the tensor has scales and group, and `unpack` writes only codes.
  BlockFormat blocks;
  void (*unpack)(const uint8_t* blocks, uint64_t n_blocks, UnpackedBlocks to);
};

std::span<const DTypeDescriptor> dtypes();  // all rows
const DTypeDescriptor& dtype_descriptor(DType dtype);
// The row with this ggml number or name, or null.
const DTypeDescriptor* find_ggml_dtype(int32_t ggml_type);
const DTypeDescriptor* find_dtype(std::string_view name);

// Bytes of `n` elements. Throws Error(kModel) if `n` is no multiple of the block, or on overflow.
uint64_t dtype_bytes(DType dtype, uint64_t n);

}  // namespace vesper

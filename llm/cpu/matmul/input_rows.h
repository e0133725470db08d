// Layouts of the input rows of GEMM micro-kernels. matmul converts a command's input to the
// kernel's layout (input_rows-inl.h) unless it has it already.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/cpu/matmul/packed_blocks.h"
#include "llm/cpu/matmul/packed_weight.h"

namespace vesper {

enum class RowLayout {
  kF32,         // f32 [n_rows, padded_n_in]
  kBF16,        // bf16 [n_rows, padded_n_in]
  kI8,          // int8 [n_rows, padded_n_in] and a scale per row
  kI8Unsigned,  // the same plus 128, as u8
  // AMX tiles of 16 rows; unused rows of the last tile are undefined.
  kBF16Tiles,       // bf16 [n_tiles, padded_n_in / 32, 16, 32]
  kTwoBF16Tiles,    // [n_tiles, padded_n_in / 32, 2, 16, 32]: rounded value, rounded rest
  kThreeBF16Tiles,  // [n_tiles, padded_n_in / 32, 3, 16, 32]: their sum is exactly the f32
  kI8Tiles,         // int8 [n_tiles, padded_n_in / 64, 16, 64] and a scale per row
  // With a scale per few inputs.
  kI8Blocks,   // Int8BlockRow [n_rows]
  kI16Blocks,  // I16Row [n_rows]
};

// Rows of an AMX tile. Up to this number, multiply-adds in f32 are at least as fast as tiles or
// 16-bit products, because they read the weights at memory speed.
inline constexpr uint32_t kFewRows = 16;

// Inputs per expanded scale of a quantized panel: 16 or 32.
inline uint32_t expanded_group(const BlockFormat& format) { return format.group == 16 ? 16 : 32; }

// A row of RowLayout::kI8Blocks: blocks of 32 int8 with a scale, max |x| / 127, and sums per group
// of expanded_group() inputs for the zero point or the minimum of the weights.
struct Int8BlockRow {
  explicit Int8BlockRow(const PackedLayout& layout)
      : block_bytes(bytes_of_block(expanded_group(layout.format.blocks) == 16)),
        bytes(layout.n_in / kBlockInputs * block_bytes) {}
  static constexpr uint32_t bytes_of_block(bool halves) { return halves ? 64 : 48; }
  // Offsets in a block: i8 [32], then
  static constexpr uint32_t kScale = 32;   // f32
  static constexpr uint32_t kStarts = 36;  // i32 [groups]: -zero * sum of the group's int8
  static constexpr uint32_t kSums = 44;    // f32 [groups]: sum of the group's int8 * scale
  uint32_t block_bytes, bytes;
};

// A row of RowLayout::kI16Blocks: i16 [padded_n_in], then a scale per 64 of them, f32 [n_blocks].
inline constexpr uint32_t kI16Inputs = 64;  // per block; the last may have 32
// Largest magnitudes: a sum of 64 products fits 32 bits. Rows have the larger range, because a few
// of their elements are far above the others.
inline constexpr int32_t kI16RowLimit = 8191, kI16WeightLimit = 4095;

struct I16Row {
  explicit I16Row(const PackedLayout& layout)
      : n_blocks((layout.padded_n_in + kI16Inputs - 1) / kI16Inputs),
        scales_offset(layout.padded_n_in * sizeof(int16_t)),
        bytes(round_up(scales_offset + n_blocks * sizeof(float), 64)) {}

  uint32_t n_blocks;
  size_t scales_offset;
  size_t bytes;
};

// Bytes between converted rows, or 1/16 of those between tiles.
size_t converted_row_bytes(RowLayout rows, const PackedLayout& layout);

}  // namespace vesper

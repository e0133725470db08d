// The layouts that a GEMM micro-kernel reads its input rows in. matmul converts a command's input
// to the kernel's (input_rows-inl.h) unless it has that layout already.
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
  // In AMX tiles of 16 rows; the rows of the last tile behind n_rows hold anything.
  kBF16Tiles,       // bf16 [n_tiles, padded_n_in / 32, 16, 32]
  kTwoBF16Tiles,    // [n_tiles, padded_n_in / 32, 2, 16, 32]: rounded, and the rounded rest
  kThreeBF16Tiles,  // [n_tiles, padded_n_in / 32, 3, 16, 32]: their sum is the f32, exactly
  kI8Tiles,         // int8 [n_tiles, padded_n_in / 64, 16, 64] and a scale per row
  // With a scale for a few inputs.
  kI8Blocks,   // Int8BlockRow [n_rows]
  kI16Blocks,  // I16Row [n_rows]
};

// The rows of an AMX tile. For as many rows or fewer, multiply-adds in f32 are as fast as tiles or
// 16-bit products, or faster: they read the weights at the speed of the memory.
inline constexpr uint32_t kFewRows = 16;

// How many inputs an expanded scale of a quantized panel serves: 16 or 32.
inline uint32_t expanded_group(const BlockFormat& format) { return format.group == 16 ? 16 : 32; }

// A row of RowLayout::kI8Blocks: blocks of 32 int8 with a scale, max |x| / 127. Beside it, for each
// group of expanded_group() inputs, what the zero code or the minimum of the weights needs.
struct Int8BlockRow {
  explicit Int8BlockRow(const PackedLayout& layout)
      : block_bytes(bytes_of_block(expanded_group(layout.format.blocks) == 16)),
        bytes(layout.n_in / kBlockInputs * block_bytes) {}
  static constexpr uint32_t bytes_of_block(bool halves) { return halves ? 64 : 48; }
  // Offsets in a block: i8 [32], then
  static constexpr uint32_t kScale = 32;   // f32
  static constexpr uint32_t kStarts = 36;  // i32 [groups]: -zero * the sum of the group's int8
  static constexpr uint32_t kSums = 44;    // f32 [groups]: the sum of the group's int8 * scale
  uint32_t block_bytes, bytes;
};

// A row of RowLayout::kI16Blocks: i16 [padded_n_in], then a scale for each 64 of them, f32
// [n_blocks].
inline constexpr uint32_t kI16Inputs = 64;  // of a block; the last may have 32
// The largest magnitudes: a sum of 64 products fits 32 bits. Rows have the larger range, since a
// few of their elements are far above the others.
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

// Bytes from one converted row to the next, or a 16th of those from tile to tile.
size_t converted_row_bytes(RowLayout rows, const PackedLayout& layout);

}  // namespace vesper

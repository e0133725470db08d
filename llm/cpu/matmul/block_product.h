// The inner part of products with quantized matrices (block_layout.h), beside panel_product.h,
// which chooses among these kernels and says what they are given.
//
// Scales are brought to f32 for a whole panel first, so that the kernels that meet the codes know
// only two kinds: one for 16 inputs or one for 32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/cpu/matmul/block_layout.h"
#include "llm/cpu/matmul/panel_product.h"

namespace vesper {

// How many inputs a scale of an expanded panel serves: 16 or 32.
inline uint32_t expanded_group(const BlockFormat& format) { return format.group == 16 ? 16 : 32; }

// A row of RowFormat::kI8Blocks: whole numbers in -127..127 by blocks of 32, each with its scale,
// the largest magnitude / 127, and what every group of expanded_group() inputs needs for the zero
// code or the minimum. Blocks lie `block_bytes` apart, rows `bytes`.
struct Int8BlockRow {
  explicit Int8BlockRow(const WeightLayout& layout)
      : block_bytes(bytes_of_block(expanded_group(layout.blocks) == 16)),
        bytes(layout.n_in / kBlockInputs * block_bytes) {}
  static constexpr uint32_t bytes_of_block(bool halves) { return halves ? 64 : 48; }
  // Of a block: i8 [32], then
  static constexpr uint32_t kScale = 32;   // f32
  static constexpr uint32_t kStarts = 36;  // i32 [groups]: -zero * the sum of its whole numbers
  static constexpr uint32_t kSums = 44;    // f32 [groups]: the sum of its whole numbers * scale
  uint32_t block_bytes, bytes;
};

// Scales and minimums of a panel as f32 [n_in / expanded_group][16]. `minimums` is written where
// the format has minimums, and for any other if `zero_as_minimum`: -zero * scale. Returns whether
// it was.
bool expand_scales(const WeightLayout& layout, const std::byte* panel, bool zero_as_minimum,
                   float* scales, float* minimums);
// Bytes that both take.
size_t expanded_scale_bytes(const WeightLayout& layout);

// Rows in f32: the panel as f32, then the product of f32 panels. On any CPU.
void multiply_blocks_f32(const PanelProduct& product);
size_t blocks_f32_scratch_bytes(const WeightLayout& layout);

// Rows of kI8Blocks, by AVX-512 VNNI, AVX-VNNI or plain AVX2: the same bits.
void multiply_blocks_vnni(const PanelProduct& product);
void multiply_blocks_avx_vnni(const PanelProduct& product);
void multiply_blocks_avx2(const PanelProduct& product);

// Rows of kBF16Tiles: the panel as bf16, then tiles of AMX.
void multiply_blocks_tiles(const PanelProduct& product);
size_t blocks_tiles_scratch_bytes(const WeightLayout& layout);

}  // namespace vesper

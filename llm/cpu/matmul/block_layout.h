// How the CPU device lays out quantized matrices (llm/dtype/quantized_row.h): in panels of 16 rows,
// as weight_layout.h has them, so that one copy serves gather and products of any number of rows.
//
// A panel is [scales][parts][codes], each from a multiple of 64 bytes on:
//
//   scales  [n_groups]{scale [16], minimum [16]} of f16, bf16 or f32; of ScaleKind::kParts
//           [n_in / 256] of f16. Minimums only where the format has some
//   parts   of ScaleKind::kParts: [n_groups]{i8 [16], i8 [16]} likewise
//   codes   [n_in / 32] blocks of 64 * bits bytes
//
// A block is 32 inputs of 16 outputs. Its codes are taken apart into planes of 4, 2 and 1 bits, so
// that 64 bytes of a plane give 4 neighbouring inputs of all outputs (a quad: byte [16][4]) by one
// shift and one mask: quad k of 8, inputs 4k .. 4k + 3, is
//
//   of 8 bits  the k'th 64 bytes
//   of 4 bits  bits 4 * (k / 4) on of the k % 4'th
//   of 2 bits  bits 2 * (k % 4) on of the k / 4'th
//   of 1 bit   bit k of all of them
//
// 3, 5 and 6 bits are 2 + 1, 4 + 1 and 4 + 2, the plane of the lower bits first. So a matrix takes
// no more memory than its file, but for what kParts rounds up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/cpu/matmul/weight_layout.h"
#include "llm/dtype/quantized_row.h"

namespace vesper {

inline constexpr uint32_t kBlockInputs = 32;

// How a quantized matrix is multiplied.
enum class BlockProducts : uint32_t {
  kF32 = 0,      // rows in f32: as exact as f32 sums are
  kI8 = 1,       // rows quantized to int8 by blocks of 32, where the CPU has instructions for it
  kFastest = 2,  // few rows as kI8; many in bf16 on tiles where the CPU has some, else as kI8
  kBF16 = 3,     // many rows in bf16 on tiles where the CPU has some; else, and few, as kF32
};

// The name of a storage in `weight_format` says all of it.
CpuWeightFormat name_blocks(const BlockFormat& format, BlockProducts products);
bool is_in_blocks(CpuWeightFormat format);
BlockFormat block_format(CpuWeightFormat format);
BlockProducts block_products(CpuWeightFormat format);

// Sets padded_n_in, panel_bytes and the offsets of `layout`, whose n_in is a multiple of 32.
void lay_out_blocks(WeightLayout& layout);

// Packs 16 rows (fewer at the end: `n_rows`) into a zeroed panel.
void pack_block_panel(const WeightLayout& layout, const QuantizedRow* rows, uint32_t n_rows,
                      std::byte* panel);

// Numbers first .. first + 32 of one output of a panel, as f32.
void read_block(const WeightLayout& layout, const std::byte* panel, uint32_t output, uint32_t first,
                float* out);

}  // namespace vesper

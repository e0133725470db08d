// Packed weights of quantized matrices (llm/dtype/quantized_row.h): panels of 16 outputs, as in
// packed_weight.h. One copy serves embed and products of any number of rows.
//
// A panel is [scales][sub-scales][codes], each starting at a multiple of 64 bytes:
//
//   scales      [n_groups]{scale [16], minimum [16]} of f16, bf16 or f32; of ScaleKind::kParts
//               [n_in / 256] of f16. Minimums only if the format has them
//   sub-scales  of ScaleKind::kParts: [n_groups]{i8 [16], i8 [16]} likewise
//   codes       [n_in / 32] blocks of 64 * bits bytes
//
// A block is 32 inputs of 16 outputs. Its codes are split into planes of 4, 2 and 1 bits. One shift
// and one mask of 64 bytes of a plane give a quad: 4 consecutive inputs of all outputs, bytes
// [16][4]. Quad k of 8, inputs 4k .. 4k + 3, is
//
//   8 bits   64-byte group k
//   4 bits   bits 4 * (k / 4) on of group k % 4
//   2 bits   bits 2 * (k % 4) on of group k / 4
//   1 bit    bit k of all bytes
//
// 3, 5 and 6 bits are 2 + 1, 4 + 1 and 4 + 2, the plane of the lower bits first. A packed matrix
// takes no more memory than its file, except for the rounding of sub-scales.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/cpu/matmul/packed_weight.h"
#include "llm/dtype/quantized_row.h"

namespace vesper {

inline constexpr uint32_t kBlockInputs = 32;

// Sets padded_n_in, panel_bytes and the offsets of `layout`. Its n_in is a multiple of 32.
void lay_out_blocks(PackedLayout& layout);

// Packs 16 rows (fewer at the end: `n_rows`) into a zeroed panel.
void pack_block_panel(const PackedLayout& layout, const QuantizedRow* rows, uint32_t n_rows,
                      std::byte* panel);

// Inputs first to first + 31 of one output of a panel, as f32.
void read_block(const PackedLayout& layout, const std::byte* panel, uint32_t output, uint32_t first,
                float* out);

}  // namespace vesper

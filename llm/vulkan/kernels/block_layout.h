// The layout of quantized matrices (llm/dtype/quantized_row.h) on a VulkanDevice: row-major, codes
// and scales in two buffers, as shaders/quantized.glsl reads them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/dtype/quantized_row.h"

namespace vesper {

// The low bits of a `weight_format`: the DType of a plain matrix, or kWeightBlocks.
inline constexpr uint32_t kWeightKindMask = 31, kWeightBlocks = 31;
// The `weight_format` of a quantized matrix: kWeightBlocks and the fields that quantized.glsl
// decodes.
uint32_t name_blocks(const BlockFormat& format);
bool names_minimums(uint32_t weight_format);

// Bytes of a row of codes, and of its scales.
uint64_t code_row_bytes(const BlockFormat& format, uint32_t n_in);
uint64_t scale_row_bytes(const BlockFormat& format, uint32_t n_in);

// Writes one row of codes and one of scales.
void write_block_row(const BlockFormat& format, const QuantizedRow& row, std::byte* codes,
                     std::byte* scales);

}  // namespace vesper

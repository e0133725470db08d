// How a VulkanDevice stores quantized matrices (llm/dtype/quantized_row.h): row by row, codes in
// one buffer and scales in another, as shaders/quantized.glsl reads them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/dtype/quantized_row.h"

namespace vesper {

// The low bits of a `weight_format` say the DType of a plain matrix, or that it is quantized.
inline constexpr uint32_t kWeightKindMask = 31, kWeightBlocks = 31;
// The format's name there: kWeightBlocks and the fields that quantized.glsl takes apart.
uint32_t name_blocks(const BlockFormat& format);
bool names_minimums(uint32_t weight_format);

// Bytes of a row of codes, and of its scales.
uint64_t code_row_bytes(const BlockFormat& format, uint32_t n_in);
uint64_t scale_row_bytes(const BlockFormat& format, uint32_t n_in);

// Writes one row of each.
void write_block_row(const BlockFormat& format, const QuantizedRow& row, std::byte* codes,
                     std::byte* scales);

}  // namespace vesper

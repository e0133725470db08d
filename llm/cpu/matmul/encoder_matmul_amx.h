// The product of many rows with a packed weight on AMX tiles: the part of PackedMatrix
// (encoder_matmul.h) for CPUs that have them. Only called where cpu_features().amx.
//
// Both operands are laid out as tiles of 1 KiB, in the order in which the kernel meets them. A tile
// of the weight holds 16 outputs and one step of the inner dimension (32 bf16 or 64 int8), grouped
// by 2 or 4 as the instruction wants; a tile of activations 16 rows and the same step. 32 rows x 32
// outputs are accumulated in four tiles over the whole inner dimension, then finished in registers.
//
// Tiles know no f32, but 24 bits are three times the 8 of a bf16: each number is the sum of three,
// exactly, and a product the sum of six of theirs. The three left out are at most 2^-25 of it
// together, less than the rounding of one product in f32; the sums are f32 in any case. (G. Henry,
// P. Tang, A. Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for
// higher-precision computations", ARITH 2019.)
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/cpu/matmul/encoder_matmul.h"

namespace vesper {

struct AmxWeight {
  Compute compute = Compute::kBF16;  // kF32, kBF16 or kI8
  uint32_t n_out = 0, n_in = 0;
  const uint8_t* tiles = nullptr;  // [ceil(n_out / 32)][n_steps][n_parts][2][1024], 3 parts of f32
  const float* column_scale = nullptr;  // [n_out], kI8 only
};

size_t amx_weight_bytes(uint32_t n_out, uint32_t n_in, Compute compute);
// Lays out f32, bf16 bits or int8 [n_rows, n_in] as outputs [first, first + n_rows) of `tiles`,
// which are zeros before.
void amx_pack_rows(const float* rows, uint32_t first, uint32_t n_rows, uint32_t n_in,
                   uint8_t* tiles);
void amx_pack_rows(const uint16_t* rows, uint32_t first, uint32_t n_rows, uint32_t n_in,
                   uint8_t* tiles);
void amx_pack_rows(const int8_t* rows, uint32_t first, uint32_t n_rows, uint32_t n_in,
                   uint8_t* tiles);

size_t amx_matmul_scratch_bytes(const AmxWeight& weight, uint32_t n_rows);
// Rows [first_row, first_row + n_rows) of the command. `scratch` is aligned to 64 bytes.
void amx_matmul(const AmxWeight& weight, const MatmulParams& params, const MatmulOperands& operands,
                uint32_t first_row, uint32_t n_rows, void* scratch);

}  // namespace vesper

// The product of many rows with a packed weight on vectors: the part of PackedMatrix
// (encoder_matmul.h) for everything that AMX does not do.
//
// Weights lie in panels of two vectors of outputs, [n_panels][n_units][outputs] of 32-bit units: a
// unit is what one multiply-add of the instruction set takes from the inner dimension, one f32, two
// bf16 or two int16. The kernel multiplies as many rows with a panel as registers hold sums of,
// over the whole inner dimension, and finishes them at once. Rows that have the format already are
// read where they lie. The sum of one row and one output is made in one order, whatever lies beside
// it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/cpu/matmul/encoder_matmul.h"

namespace vesper {

enum class VectorUnit : uint32_t {
  kF32,        // also bf16, rounded and widened, and int8 as whole numbers
  kBf16Pair,   // AVX512-BF16
  kInt16Pair,  // int8 widened: x86 of any kind
  kInt8Quad,   // VNNI: rows plus 128, unsigned; sums start from -128 times the sum of the weights
};
// What this CPU multiplies fastest for that choice.
VectorUnit vector_unit(Compute compute);

struct VectorWeight {
  Compute compute = Compute::kF32;
  VectorUnit unit = VectorUnit::kF32;
  uint32_t n_out = 0, n_in = 0;
  const uint32_t* panels = nullptr;
  const float* column_scale = nullptr;  // [n_out], kI8 only
};

size_t vector_weight_bytes(uint32_t n_out, uint32_t n_in, VectorUnit unit);
// Lays out f32, bf16 bits or int8 [n_rows, n_in] as outputs [first, first + n_rows) of `panels`,
// which are zeros before.
void vector_pack_rows(const float* rows, uint32_t first, uint32_t n_rows, uint32_t n_in,
                      VectorUnit unit, uint32_t* panels);
void vector_pack_rows(const uint16_t* rows, uint32_t first, uint32_t n_rows, uint32_t n_in,
                      VectorUnit unit, uint32_t* panels);
void vector_pack_rows(const int8_t* rows, uint32_t first, uint32_t n_rows, uint32_t n_in,
                      VectorUnit unit, uint32_t* panels);

// The kernel computes whole multiples of so many rows.
inline constexpr uint32_t kVectorRowStep = 4;

size_t vector_matmul_scratch_bytes(const VectorWeight& weight, uint32_t n_rows);
// Rows [first_row, first_row + n_rows) of the command. `scratch` is aligned to 64 bytes.
void vector_matmul(const VectorWeight& weight, const MatmulParams& params,
                   const MatmulOperands& operands, uint32_t first_row, uint32_t n_rows,
                   void* scratch);

}  // namespace vesper

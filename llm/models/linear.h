// Emits the product of contiguous rows with a weight. Used by everything that builds layers.
#pragma once

#include <cstdint>
#include <string>

#include "llm/models/weight_uploader.h"
#include "llm/table/dispatch_table.h"

namespace vesper {

// The bytes of rows between commands; of int8 rows their scales included (shaders/int8_rows.glsl).
uint64_t row_bytes(DType dtype, uint64_t n_elements);
// The format of the input of a product with `weight`: `dtype`, or int8 if it reads that.
DType input_dtype(const Weight& weight, uint32_t n_rows, DType dtype);
// What a product of contiguous rows does beside the product (see MatmulParams).
struct LinearOptions {
  Operand residual = {};  // f32 [n_rows, n_out] (?)
  uint32_t activation = kActivationNone;
  Operand rows = {};         // struct Row [n_rows] (?): unused rows are skipped
  Operand norm_weight = {};  // f32 [n_in], or of a layer norm [2, n_in] (?)
  bool layer_norm = false;
  float norm_epsilon = 0;
  bool gated = false;  // the weight is [2 * n_out, n_in]
};
void emit_linear(DispatchTable& table, std::string label, const LinearWeights& linear,
                 uint32_t n_rows, const Operand& out, DType out_dtype, const Operand& in,
                 DType in_dtype, const LinearOptions& options = {});

}  // namespace vesper

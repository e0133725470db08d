// Where row r of a matmul command lies, in elements from the start of each operand.
#pragma once

#include <cstddef>

#include "shaders/kernel_params.h"

namespace vesper {

inline size_t matmul_in_offset(const MatmulParams& p, size_t row) {
  return row / p.rows_per_batch * p.in_batch_stride + row % p.rows_per_batch * p.in_row_stride;
}
inline size_t matmul_out_offset(const MatmulParams& p, size_t row) {
  return row / p.rows_per_batch * p.out_batch_stride + row % p.rows_per_batch * p.out_row_stride;
}
inline size_t matmul_residual_offset(const MatmulParams& p, size_t row) {
  return p.flags & kMatmulResidualByRow ? row % p.rows_per_batch * size_t{p.n_out}
                                        : matmul_out_offset(p, row);
}

}  // namespace vesper

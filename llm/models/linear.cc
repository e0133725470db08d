#include "llm/models/linear.h"

#include <utility>

namespace vesper {

uint64_t row_bytes(DType dtype, uint64_t n_elements) {
  return dtype == DType::kI8 ? n_elements + n_elements / 4 : dtype_bytes(dtype, n_elements);
}

DType input_dtype(const Weight& weight, uint32_t n_rows, DType dtype) {
  return n_rows <= weight.int8_rows ? DType::kI8 : dtype;
}

void emit_linear(DispatchTable& table, std::string label, const LinearWeights& linear,
                 uint32_t n_rows, const Operand& out, DType out_dtype, const Operand& in,
                 DType in_dtype, const LinearOptions& options) {
  const Weight& weight = linear.weight;
  MatmulParams params{};
  params.n_rows = params.rows_per_batch = n_rows;
  params.n_out = params.out_row_stride = options.gated ? weight.n_out / 2 : weight.n_out;
  params.n_in = params.in_row_stride = weight.n_in;
  params.in_dtype = static_cast<uint32_t>(in_dtype);
  params.out_dtype = static_cast<uint32_t>(out_dtype);
  params.weight_format = weight.format;
  params.flags = (options.gated ? kMatmulGated : 0) | (options.layer_norm ? kMatmulLayerNorm : 0);
  params.activation = options.activation;
  params.norm_epsilon = options.norm_epsilon;
  const Operand& rows = options.rows;
  emit::matmul(table, std::move(label), params,
               out.part(0, row_bytes(out_dtype, uint64_t{n_rows} * params.n_out)),
               in.part(0, row_bytes(in_dtype, uint64_t{n_rows} * weight.n_in)), weight.data,
               linear.bias, options.residual, weight.scale,
               rows.present() ? rows.part(0, n_rows * sizeof(Row)) : Operand{},
               options.norm_weight);
}

}  // namespace vesper

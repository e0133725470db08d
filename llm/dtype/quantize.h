// Quantizers: f32 values to the blocks of a weight format, the inverse of dequantize().
//
// In: rows of values. Out: the bytes of a file. Called when a model is converted or quantized while
// it is loaded. The formats of 32 elements with one scale follow ggml's rules and give the same
// bytes; the others search for the scales with the least weighted squared error. The same values
// give the same bytes on every CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "llm/dtype/dtype.h"

namespace vesper {

// Formats that have a quantizer, in the order of DType: f32, f16, bf16, q4_0 to q8_0, q2_k to q6_k,
// iq4_nl.
std::vector<DType> quantizer_formats();
bool has_quantizer(DType dtype);

// Writes `n` values, a multiple of the format's block, to `out` [dtype_bytes(dtype, n)]. Values
// must be finite and below kMostQuantized; f32 and bf16 take any. Throws Error(kInternal) for a
// format without a quantizer.
void quantize(DType dtype, const float* values, uint64_t n, uint8_t* out);

// The largest magnitude in formats with f16 numbers or scales.
inline constexpr float kMostQuantized = 65504;

// Fills rows [first, first + n_rows) of a matrix, f32 [n_rows, n_columns].
using RowReader = std::function<void(uint64_t first, uint64_t n_rows, float* out)>;

// Quantizes rows [first, first + n_rows) of `n_columns` values to `out`, on `n_threads` threads (0:
// one per core). Throws Error(kModel), beginning with `where`, for a value that the format cannot
// hold.
void quantize_rows(const std::string& where, DType dtype, uint64_t first, uint64_t n_rows,
                   uint64_t n_columns, const RowReader& read, uint32_t n_threads, uint8_t* out);

}  // namespace vesper

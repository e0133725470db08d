// A tensor in a model's files: name, format, shape, and data.
//
// Made by the readers of llm/weights; devices store it in their own formats (llm/table/device.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "llm/dtype/dtype.h"

namespace vesper {

// A tensor inside a mapped file: valid as long as its provider.
struct TensorView {
  std::string name;       // canonical
  std::string file_name;  // as in the file; parts of a fused tensor share it
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;  // outermost first; empty for a scalar
  const void* data = nullptr;   // unaligned
  uint64_t bytes = 0;           // dtype_bytes(dtype, n_elements())
  // For kI8: value = i8 * scale[row]; the reader inverts the file's scale if necessary. Empty for
  // other formats, and for plain integers in kI8.
  std::vector<float> scale;  // [shape[0]]
  // For kAffine*: a scale and a bias for every `group` elements of a row, [shape[0], shape[1] /
  // group] of `dtype` (f32, f16 or bf16), unaligned.
  struct Groups {
    uint32_t group = 0;  // 32, 64 or 128
    DType dtype = DType::kF16;
    const void* scales = nullptr;
    const void* biases = nullptr;
  };
  Groups groups = {};
  uint64_t n_elements() const;  // 1 for a scalar
};

// What the rows of a matrix are. A device may store kinds in different orders.
enum class MatrixKind {
  kPlain,
  kConvolution,  // kernels [rows, channels, width], to be stored as [rows, width, channels]
  kGates,        // gate rows, then as many up rows; every product applies the gates
  kExperts,      // the matrices of several experts, one after another
};

// A matrix of the files: stacked parts.
struct MatrixSource {
  std::vector<const TensorView*> parts;  // each [rows, cols], or [rows, channels, width] for a
                                         // convolution
  MatrixKind kind = MatrixKind::kPlain;
  bool is_convolution() const { return kind == MatrixKind::kConvolution; }
};

// "[384, 80, 3]"
std::string shape_text(const std::vector<uint64_t>& shape);

// A row of the tensor must have a multiple of this number of elements: a block or a group.
uint32_t row_unit(const TensorView& tensor);

// Throws Error(kModel), beginning with `where`, unless the tensor has this shape and its rows can
// be read as f32: not plain integers, and in complete blocks.
void check_tensor(const std::string& where, const TensorView& tensor,
                  const std::vector<uint64_t>& shape);
// The same for each part of a matrix of any shape: equally long rows, not empty, with all their
// bytes.
void check_matrix(const std::string& where, const MatrixSource& source);

// A tensor's elements as f32: all of them, or [first, first + n), both multiples of 256 or of a
// row.
void read_f32(const TensorView& tensor, float* out);
std::vector<float> read_f32(const TensorView& tensor);
void read_f32(const TensorView& tensor, uint64_t first, uint64_t n, float* out);

// A row of a matrix.
struct MatrixRow {
  const TensorView* part;
  uint64_t row;           // in the part
  const std::byte* data;  // unaligned
};
// Throws Error(kInternal) if the matrix does not have the row.
MatrixRow matrix_row(const MatrixSource& source, uint64_t row);
// The row as f32 [cols]; for a convolution [width * channels].
void read_f32(const MatrixSource& source, uint64_t row, float* out);

}  // namespace vesper

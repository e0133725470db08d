// A tensor as a model's files hold it: name, format, shape, and where its bytes are.
//
// Made by the readers of llm/weights; devices store it as they want it (llm/table/device.h).
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
  std::string file_name;  // as the file spells it; parts of a fused tensor share it
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;  // outermost first; empty for a scalar
  const void* data = nullptr;   // unaligned
  uint64_t bytes = 0;           // dtype_bytes(dtype, n_elements())
  // For kI8: value = i8 * scale[row]; the reader has inverted what the file stores if need be.
  // Empty for every other format, and for kI8 that are plain integers.
  std::vector<float> scale;  // [shape[0]]
  // For kAffine*: a scale and a bias for every `group` numbers of a row, [shape[0], shape[1] /
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

// A matrix as the files have it: the parts one above the other.
struct MatrixSource {
  std::vector<const TensorView*> parts;  // each [rows, cols], or [rows, channels, width] below
  // The parts are convolution kernels [rows, channels, width], wanted as [rows, width * channels]
  // with the channels of one tap together.
  bool convolution = false;
};

// "[384, 80, 3]"
std::string shape_text(const std::vector<uint64_t>& shape);

// Elements that a row of the tensor must have a multiple of: those of a block, or of a group.
uint32_t row_unit(const TensorView& tensor);

// Throws Error(kModel), beginning with `where`, unless the tensor has that shape and its rows can
// be read as f32: numbers rather than plain integers, in whole blocks.
void check_tensor(const std::string& where, const TensorView& tensor,
                  const std::vector<uint64_t>& shape);
// The same of each part of a matrix, whatever its shape: the parts have equally long rows, none is
// empty, and their bytes are there.
void check_matrix(const std::string& where, const MatrixSource& source);

// A tensor's elements as f32, whatever its format: all of them, or [first, first + n), both
// multiples of 256 or of a row.
void read_f32(const TensorView& tensor, float* out);
std::vector<float> read_f32(const TensorView& tensor);
void read_f32(const TensorView& tensor, uint64_t first, uint64_t n, float* out);

// Where a row of a matrix lies.
struct MatrixRow {
  const TensorView* part;
  uint64_t row;           // of the part
  const std::byte* data;  // unaligned
};
// Throws Error(kInternal) if the matrix has no such row.
MatrixRow matrix_row(const MatrixSource& source, uint64_t row);
// The row as f32 [cols]; of a convolution [width * channels].
void read_f32(const MatrixSource& source, uint64_t row, float* out);

}  // namespace vesper

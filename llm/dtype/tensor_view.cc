#include "llm/dtype/tensor_view.h"

#include <algorithm>

#include "error/error.h"
#include "llm/dtype/quantized_row.h"

namespace vesper {
namespace {

uint64_t row_elements(const TensorView& tensor) {
  uint64_t n = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i) n *= tensor.shape[i];
  return n;
}

void check_format(const std::string& where, const TensorView& tensor, uint64_t row_size) {
  const DTypeDescriptor& dtype = dtype_descriptor(tensor.dtype);
  const auto fail = [&](const std::string& expected) {
    throw Error(ErrorKind::kModel, where + ": expected " + expected);
  };
  const bool integers =
      tensor.dtype == DType::kI8 || tensor.dtype == DType::kI16 || tensor.dtype == DType::kI32;
  if (integers && tensor.scale.size() != tensor.shape[0]) {
    fail("tensor " + tensor.file_name + " to hold fractions, found plain integers (" + dtype.name +
         " without scales)");
  }
  if (row_size % row_unit(tensor) != 0) {
    fail("the rows of tensor " + tensor.file_name + " to be a multiple of " +
         std::to_string(row_unit(tensor)) + " long for format " + dtype.name + ", found " +
         std::to_string(row_size));
  }
}

}  // namespace

uint64_t TensorView::n_elements() const {
  uint64_t n = 1;
  for (const uint64_t size : shape) n *= size;
  return n;
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

uint32_t row_unit(const TensorView& tensor) {
  return std::max(tensor.groups.group, dtype_descriptor(tensor.dtype).block);
}

void check_tensor(const std::string& where, const TensorView& tensor,
                  const std::vector<uint64_t>& shape) {
  if (tensor.shape != shape) {
    throw Error(ErrorKind::kModel, where + ": expected tensor " + tensor.file_name + " of shape " +
                                       shape_text(shape) + ", found " + shape_text(tensor.shape));
  }
  check_format(where, tensor, shape.back());
}

void check_matrix(const std::string& where, const MatrixSource& source) {
  const auto fail = [&](const TensorView& part, const std::string& expected) {
    throw Error(ErrorKind::kModel, where + ": expected tensor " + part.file_name + " " + expected);
  };
  const size_t rank = source.is_convolution() ? 3 : 2;
  for (const TensorView* part : source.parts) {
    if (part->shape.size() != rank) {
      fail(*part,
           "of " + std::to_string(rank) + " dimensions, found shape " + shape_text(part->shape));
    }
    uint64_t n = 1;
    for (const uint64_t size : part->shape) {
      if (size == 0 || __builtin_mul_overflow(n, size, &n)) {
        fail(*part,
             "to have elements that 64 bits can count, found shape " + shape_text(part->shape));
      }
    }
    const uint64_t columns = row_elements(*part), first = row_elements(*source.parts[0]);
    if (columns != first) {
      fail(*part, "of " + std::to_string(first) + " columns, found " + std::to_string(columns));
    }
    check_format(where, *part, columns);
    if (part->bytes < dtype_bytes(part->dtype, n)) {
      fail(*part, "of " + std::to_string(dtype_bytes(part->dtype, n)) + " bytes, found " +
                      std::to_string(part->bytes));
    }
  }
}

void read_f32(const TensorView& tensor, uint64_t first, uint64_t n, float* out) {
  const DTypeDescriptor& dtype = dtype_descriptor(tensor.dtype);
  if (dtype.to_f32 == nullptr) return dequantize(tensor, first, n, out);
  dtype.to_f32(static_cast<const std::byte*>(tensor.data) + first * dtype.block_bytes, out, n);
  if (tensor.scale.empty()) return;
  const uint64_t row_size = row_elements(tensor);
  for (uint64_t i = 0; i < n;) {
    const uint64_t row = (first + i) / row_size;
    const uint64_t end = std::min(n, (row + 1) * row_size - first);
    for (; i < end; ++i) out[i] *= tensor.scale.at(row);
  }
}

void read_f32(const TensorView& tensor, float* out) {
  read_f32(tensor, 0, tensor.n_elements(), out);
}

std::vector<float> read_f32(const TensorView& tensor) {
  std::vector<float> values(tensor.n_elements());
  read_f32(tensor, values.data());
  return values;
}

MatrixRow matrix_row(const MatrixSource& source, uint64_t row) {
  uint64_t left = row;
  for (const TensorView* part : source.parts) {
    if (left < part->shape[0]) {
      return {part, left,
              static_cast<const std::byte*>(part->data) +
                  dtype_bytes(part->dtype, left * row_elements(*part))};
    }
    left -= part->shape[0];
  }
  throw Error(ErrorKind::kInternal, "row " + std::to_string(row) + " is below the matrix");
}

void read_f32(const MatrixSource& source, uint64_t row, float* out) {
  const MatrixRow at = matrix_row(source, row);
  const uint64_t n = row_elements(*at.part);
  if (!source.is_convolution()) return read_f32(*at.part, at.row * n, n, out);
  const uint64_t width = at.part->shape[2], channels = at.part->shape[1];
  std::vector<float> taps(n);
  read_f32(*at.part, at.row * n, n, taps.data());
  for (uint64_t c = 0; c < channels; ++c) {
    for (uint64_t tap = 0; tap < width; ++tap) out[tap * channels + c] = taps[c * width + tap];
  }
}

}  // namespace vesper

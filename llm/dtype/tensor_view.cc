#include "llm/dtype/tensor_view.h"

#include <cstring>

#include "error/error.h"
#include "llm/dtype/quantized_row.h"

namespace vesper {
namespace {

template <typename T>
void integers_to_f32(const void* source, float* out, uint64_t n) {
  const auto* from = static_cast<const uint8_t*>(source);
  for (uint64_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

// [rows, n / rows] of i8, each row with its own scale.
void scaled_i8_to_f32(const TensorView& tensor, float* out) {
  const auto* from = static_cast<const int8_t*>(tensor.data);
  const uint64_t rows = tensor.scale.size();
  if (tensor.shape.empty() || tensor.shape[0] != rows) {
    throw Error(ErrorKind::kInternal, "tensor " + tensor.name + " has " + std::to_string(rows) +
                                          " scales, not one a row");
  }
  const uint64_t row_size = rows == 0 ? 0 : tensor.n_elements() / rows;
  for (uint64_t row = 0; row < rows; ++row, from += row_size, out += row_size) {
    const float scale = tensor.scale[row];
    for (uint64_t i = 0; i < row_size; ++i) out[i] = static_cast<float>(from[i]) * scale;
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

void check_tensor(const std::string& where, const TensorView& tensor,
                  const std::vector<uint64_t>& shape) {
  const auto fail = [&](const std::string& message) {
    throw Error(ErrorKind::kModel, where + ": expected " + message);
  };
  if (tensor.shape != shape) {
    fail("tensor " + tensor.file_name + " of shape " + shape_text(shape) + ", found " +
         shape_text(tensor.shape));
  }
  const DTypeDescriptor& format = dtype_descriptor(tensor.dtype);
  if (format.to_f32 == nullptr && !is_affine(tensor.dtype) && tensor.scale.size() != shape[0]) {
    fail("tensor " + tensor.file_name + " to hold fractions, found plain integers (" + format.name +
         " without scales)");
  }
  if (shape.back() % format.block != 0) {
    fail("the rows of tensor " + tensor.file_name + " to be a multiple of " +
         std::to_string(format.block) + " long for format " + format.name + ", found " +
         std::to_string(shape.back()));
  }
}

void read_f32(const TensorView& tensor, float* out) {
  const DTypeDescriptor& row = dtype_descriptor(tensor.dtype);
  const uint64_t n = tensor.n_elements();
  if (row.to_f32 != nullptr) {
    row.to_f32(tensor.data, out, n);
  } else if (tensor.dtype == DType::kI8 && !tensor.scale.empty()) {
    scaled_i8_to_f32(tensor, out);
  } else if (tensor.dtype == DType::kI8) {
    integers_to_f32<int8_t>(tensor.data, out, n);
  } else if (is_affine(tensor.dtype)) {
    for (uint64_t r = 0; r < tensor.shape[0]; ++r) {
      read_affine_row(tensor, r, out + r * tensor.shape[1]);
    }
  } else if (tensor.dtype == DType::kI16) {
    integers_to_f32<int16_t>(tensor.data, out, n);
  } else {
    integers_to_f32<int32_t>(tensor.data, out, n);
  }
}

std::vector<float> read_f32(const TensorView& tensor) {
  std::vector<float> values(tensor.n_elements());
  read_f32(tensor, values.data());
  return values;
}

}  // namespace vesper

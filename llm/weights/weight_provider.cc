#include "llm/weights/weight_provider.h"

#include <cstring>

#include "error/error.h"
#include "llm/quantized_row.h"
#include "llm/weights/ctranslate2_reader.h"

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

WeightProvider::WeightProvider(std::filesystem::path path, ModelContents contents)
    : path_(std::move(path)), contents_(std::move(contents)) {
  index_.reserve(contents_.tensors.size());
  for (size_t i = 0; i < contents_.tensors.size(); ++i) {
    const TensorView& tensor = contents_.tensors[i];
    if (!index_.emplace(tensor.name, i).second) {
      throw Error(ErrorKind::kModel, path_.string() + ": expected one tensor " + tensor.name +
                                         ", found two (the second is spelt " + tensor.file_name +
                                         ")");
    }
  }
}

const TensorView* WeightProvider::find(std::string_view canonical_name) const {
  const auto found = index_.find(canonical_name);
  return found == index_.end() ? nullptr : &contents_.tensors[found->second];
}

const TensorView& WeightProvider::require(std::string_view canonical_name) const {
  const TensorView* tensor = find(canonical_name);
  if (tensor == nullptr) {
    for (const UnreadableTensor& other : contents_.unreadable) {
      if (other.name == canonical_name) {
        throw Error(ErrorKind::kModel, path_.string() + ": tensor " + other.name +
                                           " is in format " + other.format +
                                           ", which has no reader");
      }
    }
    throw Error(ErrorKind::kModel, path_.string() + ": expected a tensor " +
                                       std::string(canonical_name) + ", found none of that name");
  }
  return *tensor;
}

const WhisperHyperparameters& WeightProvider::whisper() const {
  if (!contents_.whisper) {
    throw Error(ErrorKind::kModel, path_.string() + ": expected a Whisper model, found " +
                                       (contents_.family.empty() ? "a model of unstated family"
                                                                 : "family " + contents_.family));
  }
  return *contents_.whisper;
}

const TextEncoderHyperparameters& WeightProvider::text_encoder() const {
  if (!contents_.text_encoder) {
    throw Error(ErrorKind::kModel, path_.string() + ": expected a model that encodes text, found " +
                                       (contents_.family.empty() ? "a model of unstated family"
                                                                 : "family " + contents_.family));
  }
  return *contents_.text_encoder;
}

const LanguageModelFacts& WeightProvider::language_model() const {
  if (!contents_.language_model) {
    throw Error(ErrorKind::kModel, path_.string() +
                                       ": expected a language model of a known family, found " +
                                       (contents_.family.empty() ? "a model of unstated family"
                                                                 : "family " + contents_.family));
  }
  return *contents_.language_model;
}

void WeightProvider::release(const TensorView& tensor) const {
  for (const auto& file : contents_.files) file->release(tensor.data, tensor.bytes);
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

#include "llm/conversion/conversion.h"

#include <algorithm>

#include "error/error.h"
#include "llm/files/gguf_file.h"
#include "llm/files/gguf_writer.h"

namespace vesper {
namespace {

// Facts about the tensors of one GGUF file, which the new file does not repeat.
bool is_of_old_file(std::string_view key) {
  return key == "general.alignment" || key == "general.file_type" ||
         key == "general.quantization_version" || key.starts_with("split.") ||
         key.starts_with("quantize.");
}

// A GGUF model keeps its names, shapes and metadata.
void plan_gguf(const WeightProvider& weights, ConversionPlan& plan, GgufWriter& writer) {
  const Gguf& gguf = *weights.gguf();
  for (const GgufEntry& entry : gguf.metadata) {
    if (!is_of_old_file(entry.key)) writer.add(entry);
  }
  for (const GgufTensor& from : gguf.tensors) {
    const DTypeDescriptor* format = find_dtype(from.format);
    if (format == nullptr) {
      throw Error(ErrorKind::kModel, weights.path().string() + ": expected tensor " + from.name +
                                         " in a known format, found " + from.format);
    }
    if (format->ggml_type < 0 || from.n_elements == 0) {
      throw Error(ErrorKind::kModel, weights.path().string() + ": expected tensor " + from.name +
                                         " to hold weights, found shape " + shape_text(from.shape) +
                                         " in format " + from.format);
    }
    PlannedTensor& tensor = plan.tensors.emplace_back();
    tensor.name = from.name;
    tensor.shape = from.shape;
    TensorView& part = tensor.parts.emplace_back();
    part.name = part.file_name = from.name;
    part.dtype = format->dtype;
    part.shape = from.shape;
    part.data = from.data.data();
    part.bytes = from.bytes;
  }
}

MixtureModel facts_of(const ConversionPlan& plan) {
  MixtureModel facts;
  for (const PlannedTensor& tensor : plan.tensors) {
    facts.has_output |= tensor.name == "output.weight";
    facts.n_layers += tensor.name.ends_with(".ffn_norm.weight") ||
                      tensor.name.ends_with(".layer_output_norm.weight");
  }
  return facts;
}

// Integers are kept: they are no weights.
bool is_integer(const PlannedTensor& tensor) {
  const TensorView& part = tensor.parts[0];
  return part.dtype == DType::kI32 || part.dtype == DType::kI16;
}

}  // namespace

uint64_t RotaryOrder::source_of(uint64_t row) const {
  if (head_dim == 0) return row;
  const uint64_t within = row % head_dim, head = row - within;
  if (within >= 2 * uint64_t{n_pairs}) return row;
  if (interleaves) return head + within % 2 * n_pairs + within / 2;
  return head + within % n_pairs * 2 + within / n_pairs;
}

uint64_t PlannedTensor::n_rows() const {
  uint64_t n = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) n *= shape[i];
  return shape.size() == 1 ? shape[0] : n;
}

uint64_t PlannedTensor::bytes() const { return dtype_bytes(dtype, n_rows() * n_columns()); }

bool PlannedTensor::is_copy() const {
  return parts.size() == 1 && parts[0].dtype == dtype && parts[0].scale.empty() &&
         order.head_dim == 0 && offset == 0;
}

void PlannedTensor::read_rows(uint64_t first, uint64_t n, float* out) const {
  const uint64_t columns = n_columns();
  uint64_t before = 0;  // rows of earlier parts
  size_t index = 0;
  uint64_t rows_of_part = parts[0].n_elements() / columns;
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t row = order.source_of(first + i);
    if (row < before) index = 0, before = 0, rows_of_part = parts[0].n_elements() / columns;
    while (row >= before + rows_of_part) {
      before += rows_of_part;
      rows_of_part = parts.at(++index).n_elements() / columns;
    }
    read_f32(parts[index], (row - before) * columns, columns, out + i * columns);
  }
  if (offset == 0) return;
  for (uint64_t i = 0; i < n * columns; ++i) out[i] += offset;
}

uint64_t ConversionPlan::bytes() const {
  uint64_t n = head.size();
  for (const PlannedTensor& tensor : tensors) {
    n += tensor.bytes() + GgufWriter::padding(tensor.bytes());
  }
  return n;
}

ConversionPlan plan_conversion(const WeightProvider& weights, const Mixture& mixture) {
  if (weights.gguf() == nullptr) {
    throw Error(ErrorKind::kModel, weights.path().string() + ": expected a model in GGUF, found " +
                                       std::string(weights.format()));
  }
  ConversionPlan plan;
  GgufWriter writer;
  plan_gguf(weights, plan, writer);
  writer.add("general.file_type", mixture.file_type);
  writer.add("general.quantization_version", uint32_t{2});
  const MixtureModel facts = facts_of(plan);
  for (PlannedTensor& tensor : plan.tensors) {
    tensor.wanted = is_integer(tensor) ? tensor.parts[0].dtype
                                       : wanted_format(mixture, facts, tensor.name, tensor.shape);
    tensor.dtype = fitting_format(tensor.wanted, tensor.shape.empty() ? 1 : tensor.shape.back());
    const DTypeDescriptor& format = dtype_descriptor(tensor.dtype);
    writer.add_tensor(tensor.name, tensor.shape, static_cast<uint32_t>(format.ggml_type),
                      tensor.bytes());
  }
  plan.head = writer.head();
  return plan;
}

}  // namespace vesper

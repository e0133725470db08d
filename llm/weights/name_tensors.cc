#include "llm/weights/name_tensors.h"

#include <algorithm>
#include <utility>

#include "shaders/kernel_params.h"

namespace vesper {
namespace {

// The rows of each part; empty if the tensor cannot be split like this.
std::vector<uint64_t> rows_of_parts(const TensorView& tensor, size_t n_parts,
                                    const StackConfig& stack) {
  if (tensor.shape.empty()) return {};
  const uint64_t rows = tensor.shape[0];
  if (n_parts == 2) {
    return rows % 2 == 0 ? std::vector<uint64_t>{rows / 2, rows / 2} : std::vector<uint64_t>{};
  }
  const uint64_t q = uint64_t{stack.n_heads} * stack.head_dim;
  const uint64_t kv = uint64_t{stack.n_kv_heads} * stack.head_dim;
  return q <= rows && kv <= rows && q + 2 * kv == rows ? std::vector<uint64_t>{q, kv, kv}
                                                       : std::vector<uint64_t>{};
}

// The tensors of a stack, [n, ...], each in parts of equal rows named by `patterns` with their
// number for '*'; empty if a row of it is not an integer number of bytes, it has more than
// kMostExperts, or it has no such parts.
std::vector<TensorView> cut_stack(const TensorView& stack,
                                  const std::vector<std::string>& patterns) {
  std::vector<TensorView> parts;
  if (stack.shape.size() < 2 || stack.shape[0] > kMostExperts || !stack.scale.empty() ||
      stack.groups.group != 0) {
    return parts;
  }
  const uint64_t n_patterns = patterns.size(), n = stack.shape[0] * n_patterns;
  std::vector<uint64_t> shape(stack.shape.begin() + 1, stack.shape.end());
  if (n == 0 || shape[0] % n_patterns != 0) return parts;
  shape[0] /= n_patterns;
  if (shape.back() % row_unit(stack) != 0 || stack.bytes % n != 0) return parts;
  for (uint64_t i = 0; i < n; ++i) {
    TensorView part = stack;
    part.name = patterns[i % n_patterns];
    part.name.replace(part.name.find('*'), 1, std::to_string(i / n_patterns));
    part.shape = shape;
    part.bytes = stack.bytes / n;
    part.data = static_cast<const uint8_t*>(stack.data) + i * part.bytes;
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

std::vector<TensorView> cut_tensor(const TensorView& tensor, const std::vector<std::string>& names,
                                   const std::vector<uint64_t>& rows) {
  std::vector<TensorView> parts;
  const uint64_t n_rows = tensor.shape[0];
  const uint64_t row_elements = n_rows == 0 ? 0 : tensor.n_elements() / n_rows;
  if (n_rows == 0 || row_elements % dtype_descriptor(tensor.dtype).block != 0) return parts;
  const uint64_t row_bytes = tensor.bytes / n_rows;
  uint64_t first = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    TensorView part = tensor;
    part.name = names[i];
    part.shape[0] = rows[i];
    part.data = static_cast<const uint8_t*>(tensor.data) + first * row_bytes;
    part.bytes = rows[i] * row_bytes;
    if (tensor.scale.size() == n_rows) {
      const auto from = tensor.scale.begin() + static_cast<std::ptrdiff_t>(first);
      part.scale.assign(from, from + static_cast<std::ptrdiff_t>(rows[i]));
    }
    parts.push_back(std::move(part));
    first += rows[i];
  }
  return parts;
}

void name_tensors(const TensorNaming& naming, const ModelFamily& family, ModelContents& contents) {
  StackConfig& stack = contents.config->decoder();
  std::vector<TensorView> named;
  named.reserve(contents.tensors.size());
  for (TensorView& tensor : contents.tensors) {
    std::vector<std::string> names = canonical_names(naming, tensor.name);
    if (!names.empty() && names[0].find('*') != std::string::npos) {
      std::vector<TensorView> parts = cut_stack(tensor, names);
      for (TensorView& part : parts) named.push_back(std::move(part));
      if (!parts.empty()) continue;
    } else if (names.size() > 1) {
      const std::vector<uint64_t> rows = rows_of_parts(tensor, names.size(), stack);
      std::vector<TensorView> parts;
      if (!rows.empty()) parts = cut_tensor(tensor, names, rows);
      for (TensorView& part : parts) named.push_back(std::move(part));
      if (!parts.empty()) continue;
    } else if (names.size() == 1) {
      tensor.name = std::move(names[0]);
    }
    named.push_back(std::move(tensor));
  }
  contents.tensors = std::move(named);
  if (family.ffn == FfnKind::kAsInFile) {
    const std::string gate = std::string(stack.name) + ".layers.0.ffn.gate.weight";
    stack.gated_ffn = std::any_of(contents.tensors.begin(), contents.tensors.end(),
                                  [&](const TensorView& tensor) { return tensor.name == gate; });
  }
  for (UnreadableTensor& tensor : contents.unreadable) {
    const std::vector<std::string> names = canonical_names(naming, tensor.name);
    if (names.size() == 1) tensor.name = names[0];
  }
}

}  // namespace vesper

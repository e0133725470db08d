#include "llm/models/weight_uploader.h"

#include <numeric>

#include "error/error.h"

namespace vesper {
namespace {

void require_elements(const WeightProvider& provider, const TensorView& tensor, uint64_t n) {
  if (tensor.n_elements() == n) return;
  throw Error(ErrorKind::kModel, provider.path().string() + ": tensor " + tensor.file_name +
                                     ": expected " + std::to_string(n) + " elements, found " +
                                     std::to_string(tensor.n_elements()));
}

}  // namespace

Weight WeightUploader::matrix(const MatrixSource& source, WeightUse use) const {
  // A plan needs shapes only.
  if (!device_.keeps_writes()) return device_.upload(source, use, compute_);
  std::vector<LoadedTensor> loaded;
  for (const TensorView* part : source.parts) loaded.push_back(provider_.load(*part));
  MatrixSource in_memory{{}, source.kind};
  for (const LoadedTensor& part : loaded) in_memory.parts.push_back(&part.view);
  const Weight weight = device_.upload(in_memory, use, compute_);
  for (const TensorView* part : source.parts) provider_.release(*part);
  return weight;
}

Weight WeightUploader::output(const Weight& embedding) const {
  const TensorView* untied = provider_.find("decoder.output.weight");
  return untied ? matrix({{untied}}, WeightUse::kAnyRows) : embedding;
}

std::vector<float> WeightUploader::read(const TensorView& tensor) const {
  std::vector<float> values = provider_.read(tensor);
  provider_.release(tensor);
  return values;
}

Operand WeightUploader::store(uint64_t n, const std::string& name,
                              const std::function<std::vector<float>()>& values) const {
  const Operand buffer = device_.allocate(n * sizeof(float), name);
  if (device_.keeps_writes()) device_.write(buffer, values().data());
  return buffer;
}

Operand WeightUploader::vector(const std::string& name, uint64_t n) const {
  const TensorView& tensor = provider_.require(name);
  require_elements(provider_, tensor, n);
  return store(n, name, [&] { return read(tensor); });
}

NormWeights WeightUploader::norm(const std::string& name, uint32_t d, float scale) const {
  NormWeights weights;
  const TensorView& norm_weight = provider_.require(name + ".weight");
  require_elements(provider_, norm_weight, d);
  const TensorView* const bias = provider_.find(name + ".bias");
  if (bias != nullptr) require_elements(provider_, *bias, d);
  const Operand stored = store(bias != nullptr ? 2 * uint64_t{d} : d, name, [&] {
    std::vector<float> values = read(norm_weight);
    for (float& value : values) value = (value + norm_weight_offset_) * scale;
    if (bias != nullptr) {
      const std::vector<float> biases = read(*bias);
      values.insert(values.end(), biases.begin(), biases.end());
    }
    return values;
  });
  const uint64_t bytes = uint64_t{d} * sizeof(float);
  weights.weight = stored.part(0, bytes);
  if (bias != nullptr) {
    weights.bias = stored.part(bytes, bytes);
    weights.both = stored;
  }
  return weights;
}

Operand WeightUploader::head_norm(const std::string& name, uint32_t head_dim,
                                  uint32_t width) const {
  const TensorView* weight = provider_.find(name + ".weight");
  if (weight == nullptr) return {};
  return norm(name, weight->n_elements() == width ? width : head_dim).weight;
}

LinearWeights WeightUploader::linear(const std::string& prefix,
                                     const std::vector<std::string>& parts,
                                     const std::vector<uint32_t>& n_out, uint32_t n_in,
                                     WeightUse use, MatrixKind kind) const {
  LinearWeights linear;
  MatrixSource source{{}, kind};
  std::vector<const TensorView*> biases;  // null for a part without one
  bool has_bias = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const TensorView& tensor = provider_.require(prefix + parts[i] + ".weight");
    require_elements(provider_, tensor, uint64_t{n_out[i]} * n_in);
    source.parts.push_back(&tensor);
    biases.push_back(provider_.find(prefix + parts[i] + ".bias"));
    if (biases.back() == nullptr) continue;
    require_elements(provider_, *biases.back(), n_out[i]);
    has_bias = true;
  }
  linear.weight = matrix(source, use);
  if (!has_bias) return linear;
  const uint64_t n = std::accumulate(n_out.begin(), n_out.end(), uint64_t{0});
  linear.bias = store(n, prefix + parts[0] + ".bias", [&] {
    std::vector<float> bias;
    bias.reserve(n);
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::vector<float> values = biases[i] ? read(*biases[i]) : std::vector<float>(n_out[i]);
      bias.insert(bias.end(), values.begin(), values.end());
    }
    return bias;
  });
  return linear;
}

LinearWeights WeightUploader::convolution(const std::string& name, uint32_t n_out,
                                          uint32_t channels, uint32_t width) const {
  const TensorView& tensor = provider_.require(name + ".weight");
  require_elements(provider_, tensor, uint64_t{n_out} * channels * width);
  LinearWeights linear;
  linear.weight = matrix({{&tensor}, MatrixKind::kConvolution}, WeightUse::kManyRows);
  linear.bias = vector(name + ".bias", n_out);
  return linear;
}

}  // namespace vesper

// Uploads tensors of a model to a device, by their canonical names
// (llm/weights/weight_provider.h). Used by everything that builds layers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "llm/table/device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// A norm on a device. `bias` may be absent.
struct NormWeights {
  Operand weight, bias;  // f32 [d]
  Operand both = {};     // f32 [2, d]: weight and bias, if there is a bias
};

// A matrix with its bias, f32 [n_out], which may be absent.
struct LinearWeights {
  Weight weight;
  Operand bias;
};

class WeightUploader {
 public:
  WeightUploader(Device& device, const WeightProvider& provider, Compute compute,
                 float norm_weight_offset = 0)
      : device_(device),
        provider_(provider),
        compute_(compute),
        norm_weight_offset_(norm_weight_offset) {}

  // The tensor as f32. Throws Error(kModel) if it is absent or does not have `n` elements.
  Operand vector(const std::string& name, uint64_t n) const;
  // The matrix; releases its file memory. Throws the errors of Device::upload.
  Weight matrix(const MatrixSource& source, WeightUse use) const;
  // The output matrix of a decoder, or its embedding if the file has none.
  Weight output(const Weight& embedding) const;
  NormWeights norm(const std::string& name, uint32_t d, float scale = 1) const;
  // The weight of an optional norm of heads or of all `width`; may be absent.
  Operand head_norm(const std::string& name, uint32_t head_dim, uint32_t width) const;
  // The matrices `prefix + part + ".weight"` stacked, and their biases, zero for a part without
  // one; no bias if none has one. Each part is [n_out / parts, n_in].
  LinearWeights linear(const std::string& prefix, const std::vector<std::string>& parts,
                       const std::vector<uint32_t>& n_out, uint32_t n_in, WeightUse use,
                       MatrixKind kind = MatrixKind::kPlain) const;
  // A convolution kernel [n_out, channels, width] as a product over overlapping rows.
  LinearWeights convolution(const std::string& name, uint32_t n_out, uint32_t channels,
                            uint32_t width) const;
  // The tensor as f32; releases its file memory.
  std::vector<float> read(const TensorView& tensor) const;
  // A buffer of `n` f32. `values` computes them; not called if the device only plans.
  Operand store(uint64_t n, const std::string& name,
                const std::function<std::vector<float>()>& values) const;

 private:
  Device& device_;
  const WeightProvider& provider_;
  Compute compute_;
  float norm_weight_offset_;
};

}  // namespace vesper

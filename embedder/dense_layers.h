// Dense layers after the pooling of a text's rows: the classifier of a cross-encoder, or the
// projections of sentence-transformers' Dense modules.
//
// In: f32 rows on the device. Out: f32 rows of the last layer. Called by embedder/embedder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llm/models/linear.h"
#include "llm/table/device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// out = norm(activation(weight in + bias)).
struct DenseLayer {
  std::string name;  // of the weight, for messages
  uint32_t n_out = 0, n_in = 0;
  std::vector<float> weight;              // [n_out, n_in]
  std::vector<float> bias = {};           // [n_out]; empty: none
  uint32_t activation = kActivationNone;  // kActivation*
  float activation_limit = 0;             // of kActivationSoftCap; 1: tanh
  std::vector<float> norm_weight = {};    // [n_out], of a layer norm; empty: none
  std::vector<float> norm_bias = {};      // [n_out]; may be empty
  float norm_epsilon = 0;
};

// The tensors STEM.weight, [n_out, n_in], and STEM.bias, which may be absent. `n_out` is 0: any
// number. Throws Error(kModel) naming the tensor if its shape is another.
DenseLayer read_dense_layer(const WeightProvider& weights, const std::string& stem, uint32_t n_out,
                            uint32_t n_in);

// The layers after the pooling of an embedding model: of the `modules`, folders of sentence-
// transformers' Dense modules, or of a GGUF file; empty if it has none. Throws Error(kModel) naming
// the file or the tensor.
std::vector<DenseLayer> read_dense_layers(const WeightProvider& weights, const ModelFiles& files,
                                          const std::vector<std::string>& modules);

class DenseLayers {
 public:
  // No layers: nothing is allocated.
  DenseLayers() = default;
  // Uploads the layers, each of which reads the output of the previous one, for `max_rows` rows.
  DenseLayers(Device& device, const std::vector<DenseLayer>& layers, uint32_t max_rows);

  bool empty() const { return layers_.empty(); }
  uint32_t n_out() const { return layers_.back().weight.weight.n_out; }
  // f32 [max_rows, n_out()].
  const Operand& output() const { return layers_.back().out; }
  // Appends the layers for the first `n_rows` rows of `in`, f32 [max_rows, n_in of the first].
  void emit(DispatchTable& table, uint32_t n_rows, const Operand& in) const;

 private:
  struct Layer {
    std::string name;
    LinearWeights weight;
    uint32_t activation;
    float activation_limit;
    NormWeights norm;  // may be absent
    float norm_epsilon;
    Operand out;  // f32 [max_rows, n_out]
  };
  std::vector<Layer> layers_;
};

}  // namespace vesper

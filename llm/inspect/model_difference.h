// Differences between two models in any formats. Tensors are compared by canonical names, elements
// after dequantization.
#pragma once

#include <string>
#include <vector>

#include "llm/inspect/model_description.h"

namespace vesper {

struct ModelDifference {
  struct Value {
    std::string key;
    nlohmann::json a, b;  // null if only the other model has it
  };
  struct Tensor {
    std::string name;
    std::string a, b;  // format and shape, "f16 [384, 80, 3]"; empty if only the other model has it
    // The largest |a - b|; absent if the shapes differ or one tensor cannot be read.
    std::optional<double> largest;
  };
  std::vector<Value> facts;     // format and family included
  std::vector<Value> metadata;  // arrays: the first 1000 elements
  std::vector<Tensor> tensors;  // tensors that differ in format, shape or elements
  uint64_t n_equal_tensors = 0;
  bool empty() const { return facts.empty() && metadata.empty() && tensors.empty(); }
};

ModelDifference model_difference(const ModelDescription& a, const ModelDescription& b,
                                 uint32_t n_threads = 0);

// "f16 [384, 80, 3]"
std::string shape_and_format(const DescribedTensor& tensor);

}  // namespace vesper

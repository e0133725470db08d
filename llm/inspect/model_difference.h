// What differs between two models, whatever formats their files have: tensors are compared by their
// canonical names, numbers after dequantization.
#pragma once

#include <string>
#include <vector>

#include "llm/inspect/model_description.h"

namespace vesper {

struct ModelDifference {
  struct Value {
    std::string key;
    nlohmann::json a, b;  // null where only the other has it
  };
  struct Tensor {
    std::string name;
    std::string a, b;  // format and shape, "f16 [384, 80, 3]"; empty where only the other has it
    // The largest |a - b|; absent where the shapes differ or one of them cannot be read.
    std::optional<double> largest;
  };
  std::vector<Value> facts;     // format and family too
  std::vector<Value> metadata;  // arrays by their first 1000 elements
  std::vector<Tensor> tensors;  // those that differ in format, shape or any number
  uint64_t n_equal_tensors = 0;
  bool empty() const { return facts.empty() && metadata.empty() && tensors.empty(); }
};

ModelDifference model_difference(const ModelDescription& a, const ModelDescription& b,
                                 uint32_t n_threads = 0);

// "f16 [384, 80, 3]"
std::string shape_and_format(const DescribedTensor& tensor);

}  // namespace vesper

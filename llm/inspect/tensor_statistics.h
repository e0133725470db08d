// Statistics of tensors over all elements, computed by several threads.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/weights/weight_provider.h"

namespace vesper {

struct TensorStatistics {
  uint64_t n = 0;  // elements
  uint64_t n_nan = 0, n_infinite = 0, n_zero = 0;
  // Of the finite elements; 0 if none.
  double min = 0, max = 0, mean = 0, standard_deviation = 0;
};

// One per tensor, in order. The result does not depend on the number of threads (0: one per core).
// Of tensors without data, `provider` computes those that it can; the others have n == 0.
std::vector<TensorStatistics> tensor_statistics(const std::vector<const TensorView*>& tensors,
                                                uint32_t n_threads = 0,
                                                const WeightProvider* provider = nullptr);

// Whether the elements are in a file or `provider`, which may be null, computes them.
bool has_values(const TensorView& tensor, const WeightProvider* provider);

// Two tensors with values, and as many of them.
struct TensorPair {
  const TensorView* a;
  const TensorView* b;
  const WeightProvider *provider_of_a = nullptr, *provider_of_b = nullptr;  // of computed tensors
};
// The largest |a - b| of each pair; NaN if an element of only one of them is NaN.
std::vector<double> largest_differences(const std::vector<TensorPair>& pairs,
                                        uint32_t n_threads = 0);

}  // namespace vesper

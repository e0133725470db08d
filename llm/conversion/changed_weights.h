// Weights that are changed while a model is loaded: quantized, tensor by tensor.
//
// In: an open model. Out: a provider of the same model whose changed tensors are computed when a
// device loads them (WeightProvider::load), so that no second copy of the model is in memory.
// Called by the sessions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "llm/conversion/mixture.h"
#include "llm/weights/model_families.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

struct WeightOptions {
  // Format of most matrices, one of mixture_names(): each tensor has the values that a file of this
  // type would have, converted from the model. Empty: as in the files.
  std::string type = {};
};

// Throws Error(kUsage) about the setting "weights" for an unknown type.
void check_weight_options(const WeightOptions& options);

// The model with the changes, or `weights` itself if there are none. The new provider keeps the
// files open, and needs `weights` no longer. `n_threads` quantize; 0: one per core. Throws the
// errors of check_weight_options(); loading a tensor throws Error(kModel) for a value that the
// format cannot hold.
std::shared_ptr<const WeightProvider> change_weights(std::shared_ptr<const WeightProvider> weights,
                                                     const WeightOptions& options,
                                                     uint32_t n_threads);

// The row that describes the GGUF files of a model's family, or null if GGUF has no name for it.
const ModelFamily* gguf_family(const WeightProvider& weights);

// Integers are kept: they are no weights.
bool is_integer(DType dtype);

}  // namespace vesper

// Weights that are changed while a model is loaded, tensor by tensor: adapters are added, matrices
// are quantized.
//
// In: an open model. Out: a provider of the same model whose changed tensors are computed when a
// device loads them (WeightProvider::load), so that no second copy of the model is in memory.
// Called by the sessions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "llm/weights/weight_provider.h"

namespace vesper {

// A LoRA adapter (llm/conversion/adapters.h).
struct AdapterFile {
  std::filesystem::path path;
  float scale = 1;  // of the change, besides the adapter's own; any finite number
};

struct WeightOptions {
  // Format of most matrices, one of mixture_names(): each tensor has the values that a file of this
  // type would have, converted from the model. Empty: as in the files.
  std::string type = {};
  // Added to the weights in f32. The changed matrices have the format of `type`; without one, that
  // of the files, or q8_0 instead of formats in blocks, whose steps would hide the change.
  std::vector<AdapterFile> adapters = {};
};

// Throws Error(kUsage) about the setting "weights" for an unknown type, and "adapters" for a scale
// that is not finite.
void check_weight_options(const WeightOptions& options);

// The model with the changes, or `weights` itself if there are none. The new provider keeps
// `weights`. `n_threads` compute; 0: one per core. Throws the
// errors of check_weight_options() and read_adapter(); loading a tensor throws Error(kModel) for a
// value that the format cannot hold.
std::shared_ptr<const WeightProvider> change_weights(std::shared_ptr<const WeightProvider> weights,
                                                     const WeightOptions& options,
                                                     uint32_t n_threads);

}  // namespace vesper

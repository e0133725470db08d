// Quantized matrices as MLX saves them: `NAME.weight` of u32 words beside `NAME.scales` and
// `NAME.biases`, with what the words are in config.json ("quantization": group_size and bits, and
// the same under a module's own name where that differs).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "llm/weights/weight_provider.h"

namespace vesper {

// Makes one tensor of each such triple of `contents` (DType::kAffine*, in the shape of the matrix).
// Does nothing if `config` speaks of no quantization by groups. Throws Error(kModel) naming tensor
// and what was expected if a triple is incomplete or its parts do not fit together.
void join_mlx_tensors(const std::string& config_name, const nlohmann::json& config,
                      ModelContents& contents);

}  // namespace vesper

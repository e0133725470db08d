// Quantized matrices saved by MLX: `NAME.weight` in u32 words, `NAME.scales` and `NAME.biases`.
// config.json describes the words ("quantization": group_size and bits, and the same under the name
// of a module that differs).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "llm/weights/weight_provider.h"

namespace vesper {

// Joins each such triple of `contents` to one tensor (DType::kAffine*, in the shape of the matrix).
// Does nothing if `config` has no group quantization. Throws Error(kModel) naming the tensor if a
// triple is incomplete or inconsistent.
void join_mlx_tensors(const std::string& config_name, const nlohmann::json& config,
                      ModelContents& contents);

}  // namespace vesper

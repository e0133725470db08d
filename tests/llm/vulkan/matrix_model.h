// The kernels of matrix units, compiled with a model of these (shaders/cooperative_matrices.glsl).
#pragma once

#include <cstdint>
#include <span>

#include "llm/vulkan/kernels/pipelines.h"

namespace vesper {

// SPIR-V words; empty for other shaders. For VulkanOptions::matrix_model.
std::span<const uint32_t> matrix_model(Shader shader);

}  // namespace vesper

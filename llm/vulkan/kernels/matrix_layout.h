// How a driver spreads a cooperative matrix over the lanes of a subgroup. Vulkan does not define
// it, so the device is asked when it is opened.
#pragma once

#include "llm/vulkan/context/vulkan_context.h"
#include "llm/vulkan/context/vulkan_memory.h"
#include "llm/vulkan/kernels/pipelines.h"

namespace vesper {

// Whether attention can exponentiate scores in the lanes that have them, and weights can be stored
// in the order of matrices: 32 lanes have the same elements of a 16 x 16 matrix of sums as of a
// matrix A and of a transposed matrix B, and lane l has element e at row l / 4 + e / 4 * 8 and
// column e / 2 % 2 * 8 + l % 4 * 2 + e % 2. False without cooperative matrices.
bool has_rows_in_quads(VulkanContext& context, VulkanMemory& memory, Pipelines& pipelines);

}  // namespace vesper

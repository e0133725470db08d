// How a command runs on a Vulkan device: in comes a command, out go the pipeline, what is pushed
// and the grid. Everything that depends on the device's measurements is decided here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "llm/table/dispatch_table.h"
#include "llm/vulkan/pipelines.h"
#include "llm/vulkan/vulkan_memory.h"

namespace vesper {

inline constexpr uint32_t kMaxVectorRows = 8;  // of matmul_vector

struct KernelPlan {
  PipelineKey pipeline;
  alignas(8) std::array<std::byte, Pipelines::kPushBytes> push{};
  uint32_t push_bytes = 0;
  std::array<uint32_t, 3> groups{1, 1, 1};
  // What the dispatch needs beside its operands: their addresses are to be put at the end of what
  // is pushed. No other dispatch of the stage may have the same.
  uint64_t scratch_bytes = 0;
  uint32_t n_counters = 0;  // u32 that are zero before the dispatch, and after it
};

// Throws Error(kInternal) naming `label` if no kernel can run the command.
KernelPlan plan_kernel(const Command& command, const std::string& label, const VulkanMemory& memory,
                       const VulkanCapabilities& capabilities);

}  // namespace vesper

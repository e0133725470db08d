// Plans a command for a Vulkan device. In: a command. Out: the pipeline, push constants and grid.
// All choices that depend on measurements are here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "llm/table/dispatch_table.h"
#include "llm/vulkan/context/vulkan_memory.h"
#include "llm/vulkan/kernels/pipelines.h"

namespace vesper {

inline constexpr uint32_t kMaxVectorRows = 8;  // of matmul_vector

struct KernelPlan {
  PipelineKey pipeline;
  alignas(8) std::array<std::byte, Pipelines::kPushBytes> push{};
  uint32_t push_bytes = 0;
  std::array<uint32_t, 3> groups{1, 1, 1};
  // Bytes of scratch memory that the dispatch needs, which no other dispatch of the stage uses. The
  // push constants end with its address and that of the counters, or only with the latter.
  uint64_t scratch_bytes = 0;
  uint32_t n_counters = 0;  // u32 that are zero before and after the dispatch
  // With this number of workgroups or fewer, it may wait for the stage before by a counter
  // (stage_order.h). 0: it has barriers.
  uint32_t waiting_groups = 0;
  // Offset in `push`, in bytes, of the address of that stage's counter. Its own counter follows.
  uint32_t order_at = 0;
};

// Throws Error(kInternal) naming `label` if no kernel can run the command.
KernelPlan plan_kernel(const Command& command, const std::string& label, const VulkanMemory& memory,
                       const VulkanCapabilities& capabilities);

}  // namespace vesper

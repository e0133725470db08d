// Stages of a program that wait by counters instead of at barriers. A barrier lets the device run
// empty for 3 to 4 us on an H200, at each of 53 to 160 stages of a token (docs/measurements/0031,
// "Stages that wait by counters instead of at barriers").
//
// A stage of one dispatch counts its workgroups in memory when they have stored their results, and
// the workgroups of the next stage, which load weights meanwhile, wait for the count
// (shaders/stage_order.glsl). That needs a driver that starts the workgroups of a dispatch after
// all those of the dispatch before; otherwise those that wait could keep the others from the
// processors. Vulkan does not guarantee it.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/vulkan/context/vulkan_memory.h"
#include "llm/vulkan/kernels/kernel_plan.h"

namespace vesper {

class StageOrder {
 public:
  StageOrder(const VulkanCapabilities& capabilities, VulkanMemory& memory)
      : capabilities_(capabilities), memory_(memory) {}

  // Chooses the stages that wait for the one before by counters, and changes their plans.
  // `stages`: the stage of each kernel. Returns which kernels wait so.
  std::vector<bool> apply(std::vector<KernelPlan>& kernels, const std::vector<uint32_t>& stages);

  // Throws Error(kDevice) if a workgroup has waited for one that the driver had not started. Waits
  // for submitted replays.
  void check();

 private:
  const VulkanCapabilities& capabilities_;
  VulkanMemory& memory_;
  Operand waited_in_vain_;  // u32, not 0 after a wait in vain; absent: no stage waits
};

}  // namespace vesper

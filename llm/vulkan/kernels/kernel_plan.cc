#include "llm/vulkan/kernels/kernel_plan.h"

#include <algorithm>
#include <cstring>

#include "error/error.h"
#include "llm/vulkan/kernels/kernel_planner.h"

namespace vesper {

KernelPlan KernelPlanner::plan() {
  switch (command_.kernel) {
#define VESPER_PLAN_KERNEL(id, name, params) \
  case Kernel::id:                           \
    name(command_.params_as<params>());      \
    break;
    VESPER_KERNELS(VESPER_PLAN_KERNEL)
#undef VESPER_PLAN_KERNEL
  }
  for (uint32_t i = 0; i < 3; ++i) {
    if (plan_.groups[i] > capabilities_.max_groups[i]) {
      fail("needs " + std::to_string(plan_.groups[i]) + " workgroups, the device has " +
           std::to_string(capabilities_.max_groups[i]));
    }
  }
  return plan_;
}

void KernelPlanner::fail(const std::string& what) const {
  throw Error(ErrorKind::kInternal, label_ + " (" + kernel_name(command_.kernel) + "): " + what);
}

void KernelPlanner::require_weight(uint32_t weight_format) const {
  const uint32_t format = storage(weight_format);
  require(format == kDTypeF32 || format == kDTypeF16 || format == kDTypeI8 || in_blocks(format),
          "a weight of f32, f16, int8 or quantized blocks");
}

void KernelPlanner::shader(Shader shader, std::initializer_list<uint32_t> constants) {
  if (constants.size() > PipelineKey::kMaxConstants) fail("more constants than fit");
  plan_.pipeline.shader = shader;
  std::copy(constants.begin(), constants.end(), plan_.pipeline.constants.begin());
}

void KernelPlanner::push(const void* data, size_t bytes) {
  if (plan_.push_bytes + bytes > plan_.push.size()) fail("more to push than fits");
  std::memcpy(plan_.push.data() + plan_.push_bytes, data, bytes);
  plan_.push_bytes += static_cast<uint32_t>(bytes);
}

void KernelPlanner::push_addresses(uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t value = address(i);
    push(&value, sizeof value);
  }
}

void KernelPlanner::allow_waiting(uint32_t push_at, uint32_t n_rows) {
  if (!capabilities_.starts_in_order) return;
  plan_.order_at = push_at;
  plan_.waiting_groups = tuning_.order_groups * n_processors() / (n_rows == 1 ? 1 : 2);
}

KernelPlan plan_kernel(const Command& command, const std::string& label, const VulkanMemory& memory,
                       const VulkanCapabilities& capabilities) {
  return KernelPlanner(command, label, memory, capabilities).plan();
}

}  // namespace vesper

#include "llm/vulkan/stage_order.h"

#include <cstring>
#include <string>

#include "error/error.h"

namespace vesper {
namespace {

// Fewer successive stages keep their barriers.
constexpr size_t kLeastSuccessive = 3;

uint64_t n_groups(const KernelPlan& kernel) {
  return uint64_t{kernel.groups[0]} * kernel.groups[1] * kernel.groups[2];
}

// The build of a shader with the Vulkan memory model.
Shader waiting(Shader shader) {
  switch (shader) {
    case Shader::kNorm:
      return Shader::kNormWaiting;
    case Shader::kMatmulVector:
      return Shader::kMatmulVectorWaiting;
    case Shader::kMatmulInt8:
      return Shader::kMatmulInt8Waiting;
    case Shader::kPagedAttention:
      return Shader::kPagedAttentionWaiting;
    default:
      throw Error(ErrorKind::kInternal,
                  std::string(shader_name(shader)) + ": expected a shader that can wait");
  }
}

}  // namespace

std::vector<bool> StageOrder::apply(std::vector<KernelPlan>& kernels,
                                    const std::vector<uint32_t>& stages) {
  std::vector<bool> waits(kernels.size());
  const auto is_alone = [&](size_t i) {
    return (i == 0 || stages[i] != stages[i - 1]) &&
           (i + 1 == stages.size() || stages[i] != stages[i + 1]);
  };
  // Waiting and counting in more workgroups takes longer than a barrier.
  const auto can_wait = [&](size_t i) {
    const KernelPlan &kernel = kernels[i], &before = kernels[i - 1];
    return is_alone(i) && is_alone(i - 1) && n_groups(kernel) <= kernel.waiting_groups &&
           n_groups(before) <= uint64_t{2} * before.waiting_groups;
  };
  for (size_t first = 0; first < kernels.size();) {
    size_t end = first + 1;
    while (end < kernels.size() && can_wait(end)) ++end;
    if (end - first >= kLeastSuccessive) {
      if (!waited_in_vain_.present()) {
        waited_in_vain_ = memory_.allocate(sizeof(uint32_t), "waits in vain");
      }
      std::vector<StageCounter> counters(end - first + 1);
      for (StageCounter& counter : counters) {
        const uint64_t address = memory_.address(waited_in_vain_);
        std::memcpy(counter.waited_in_vain, &address, sizeof address);
      }
      const Operand buffer =
          memory_.allocate(counters.size() * sizeof(StageCounter), "counters of stages");
      memory_.write(buffer, counters.data());
      for (size_t i = first; i < end; ++i) {
        KernelPlan& kernel = kernels[i];
        waits[i] = i != first;
        kernel.pipeline.constants[kOrderConstant] = waits[i] ? kOrderWaits : kOrderCounts;
        if (capabilities_.is_hardware_gpu) kernel.pipeline.shader = waiting(kernel.pipeline.shader);
        // The counter of the stage before, then the kernel's own.
        const uint64_t address = memory_.address(buffer.from((i - first) * sizeof(StageCounter)));
        std::memcpy(kernel.push.data() + kernel.order_at, &address, sizeof address);
        kernel.push_bytes = kernel.order_at + uint32_t{sizeof address};
      }
    }
    first = end;
  }
  return waits;
}

void StageOrder::check() {
  if (!waited_in_vain_.present()) return;
  uint32_t waited_in_vain = 0;
  memory_.read(waited_in_vain_, &waited_in_vain);
  if (waited_in_vain == 0) return;
  throw Error(ErrorKind::kDevice,
              capabilities_.name +
                  ": expected workgroups to start in the order of their dispatches, found one that "
                  "waited in vain; VESPER_TUNING=order_groups=0 keeps the barriers");
}

}  // namespace vesper

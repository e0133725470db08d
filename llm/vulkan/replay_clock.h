// The clock of a recording's replays: timestamp queries in its command buffers.
//
// Several replays may be under way at once, each a command buffer with queries of its own: a slot.
// Used by VulkanDevice while Clock is not kOff.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>
#include <vector>

#include "llm/device.h"
#include "llm/vulkan/kernel_plan.h"
#include "llm/vulkan/pipelines.h"
#include "llm/vulkan/vulkan_context.h"
#include "llm/vulkan/vulkan_memory.h"

namespace vesper {

class ReplayClock {
 public:
  static constexpr uint32_t kSlots = 16;

  // Throws Error(kDevice) if the device's queue has no timestamps.
  ReplayClock(VulkanContext& context, VulkanMemory& memory, Pipelines& pipelines,
              uint32_t n_stages);
  ~ReplayClock();
  ReplayClock(const ReplayClock&) = delete;
  ReplayClock& operator=(const ReplayClock&) = delete;

  // What counts the replays that are not left out: to be dispatched in each of those that can be.
  const KernelPlan& counting() const { return counting_; }

  // Timestamps into the command buffer of a slot. Mark 0 is where its first stage begins, marks 1
  // to n_stages each end a stage and begin the next.
  //
  // The time when the queue comes here, which it does when the barriers before let it pass: to be
  // written behind the first dispatch after a barrier, since a timestamp between the two makes a
  // driver wait twice (1.3 us on an H200, against 0.1). Vulkan does not promise that a queue stops
  // at a barrier; those of GPUs do.
  void mark_reached(VkCommandBuffer commands, uint32_t slot, uint32_t mark);
  // The time when all dispatches before are done.
  void mark_done(VkCommandBuffer commands, uint32_t slot, uint32_t mark);

  // The first `n_slots` command buffers were submitted, with or without counting() in each; none
  // may be again before collect().
  void submitted(uint32_t n_slots, bool counted);
  // Waits for what was submitted and adds its times up.
  void collect();
  const ReplayTimes& times() const { return times_; }
  void forget();

 private:
  uint32_t first_query(uint32_t slot) const { return slot * (n_stages_ + 1); }

  VulkanContext& context_;
  VulkanMemory& memory_;
  uint32_t n_stages_;
  VkQueryPool queries_ = VK_NULL_HANDLE;
  KernelPlan counting_;
  Operand n_counted_;  // u32, since the clock was made
  uint32_t n_counted_before_ = 0;
  uint32_t n_submitted_ = 0;
  bool is_counted_ = false;
  std::vector<uint64_t> ticks_;  // [kSlots, n_stages + 1]
  ReplayTimes times_;
};

}  // namespace vesper

// The clock of a program's replays: timestamp queries in its command buffers.
//
// Many replays may be under way at once, each a command buffer with queries of its own: a slot.
// They are read when all slots are used up or somebody asks for the times, so that a chain of
// replays does not wait for the one before it. Of a chain that is clocked at its barriers every
// fourth replay has a slot, the others are counted: command buffers of their own cost each replay
// more than the timestamps in them (decision 23). Used by VulkanDevice while Clock is not kOff.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>
#include <vector>

#include "llm/table/device.h"
#include "llm/vulkan/kernel_plan.h"
#include "llm/vulkan/pipelines.h"
#include "llm/vulkan/vulkan_context.h"
#include "llm/vulkan/vulkan_memory.h"

namespace vesper {

class ReplayClock {
 public:
  static constexpr uint32_t kSlots = 64;
  static constexpr uint32_t kUnclocked = kSlots;  // in a slot's place

  // Throws Error(kDevice) if the device's queue has no timestamps.
  ReplayClock(VulkanContext& context, VulkanMemory& memory, Pipelines& pipelines, uint32_t n_stages,
              Clock clock);
  ~ReplayClock();
  ReplayClock(const ReplayClock&) = delete;
  ReplayClock& operator=(const ReplayClock&) = delete;

  // What counts the replays that have this slot, or kUnclocked, and were not left out: to be
  // dispatched in each of those that can be.
  KernelPlan counting(uint32_t slot) const;

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

  // The slots of the `n` replays of a chain that are submitted next, at most kSlots, in their
  // order; kUnclocked for those without. `may_be_left_out`: they have counting() in them.
  const std::vector<uint32_t>& take(uint32_t n, bool may_be_left_out);
  // Waits for what was submitted and adds its times up.
  void collect();
  // Of all replays that were counted, as if those without a slot had taken as long as the others.
  ReplayTimes times() const;
  void forget();

 private:
  uint32_t first_query(uint32_t slot) const { return slot * (n_stages_ + 1); }

  VulkanContext& context_;
  VulkanMemory& memory_;
  uint32_t n_stages_;
  uint32_t clocked_each_;  // this many replays of a chain, the first of them
  VkQueryPool queries_ = VK_NULL_HANDLE;
  KernelPlan counting_;
  Operand n_counted_;  // u32 [kSlots + 1], since the clock was made; the last is kUnclocked's
  std::vector<uint32_t> n_counted_before_;
  std::vector<bool> may_be_left_out_;  // of the slots that are taken
  std::vector<uint32_t> taken_;        // what take() returned
  std::vector<uint64_t> ticks_;        // [kSlots, n_stages + 1]
  uint32_t n_clocked_ = 0, n_unclocked_ = 0;
  std::vector<double> us_;  // [n_stages] of the n_clocked replays
};

}  // namespace vesper

// The clock of a program's replays: timestamp queries in its command buffers.
//
// Many replays may be in flight. Each timed one has a slot: a command buffer with its own queries.
// Slots are read when all are used, or when the times are asked for, so that chains do not wait for
// each other. At barriers, every fourth replay of a chain has a slot and the others are counted,
// because separate command buffers cost more than the timestamps in them (decision 23). Used by
// VulkanDevice while Clock is not kOff.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>
#include <vector>

#include "llm/table/device.h"
#include "llm/vulkan/context/vulkan_context.h"
#include "llm/vulkan/context/vulkan_memory.h"
#include "llm/vulkan/kernels/kernel_plan.h"
#include "llm/vulkan/kernels/pipelines.h"

namespace vesper {

class ReplayClock {
 public:
  static constexpr uint32_t kSlots = 64;
  static constexpr uint32_t kUnclocked = kSlots;  // the slot of a replay without one

  // Throws Error(kDevice) if the device's queue has no timestamps.
  ReplayClock(VulkanContext& context, VulkanMemory& memory, Pipelines& pipelines, uint32_t n_stages,
              Clock clock);
  ~ReplayClock();
  ReplayClock(const ReplayClock&) = delete;
  ReplayClock& operator=(const ReplayClock&) = delete;

  // The dispatch that counts the replays with this slot, or kUnclocked. Command buffers that
  // conditional rendering may skip need it.
  KernelPlan counting(uint32_t slot) const;

  // Writes timestamps to the command buffer of a slot. Mark 0 is the start of the first stage;
  // marks 1 to n_stages are the end of a stage and the start of the next.
  //
  // The time when the queue passes this command, after the barriers before it. Written after the
  // first dispatch that follows a barrier: between the two, the driver would wait twice (1.3 us on
  // an H200 instead of 0.1). Vulkan does not guarantee that a queue stops at a barrier; those of
  // GPUs do.
  void mark_reached(VkCommandBuffer commands, uint32_t slot, uint32_t mark);
  // The time when all previous dispatches are done.
  void mark_done(VkCommandBuffer commands, uint32_t slot, uint32_t mark);

  // The slots of the next `n` submitted replays of a chain, at most kSlots, in order; kUnclocked
  // for replays without one. `may_be_left_out`: their command buffers have counting().
  const std::vector<uint32_t>& take(uint32_t n, bool may_be_left_out);
  // Waits for submitted replays and adds their times.
  void collect();
  // Of all counted replays. Those without a slot count with the mean time of the others.
  ReplayTimes times() const;
  void forget();

 private:
  uint32_t first_query(uint32_t slot) const { return slot * (n_stages_ + 1); }

  VulkanContext& context_;
  VulkanMemory& memory_;
  uint32_t n_stages_;
  uint32_t clocked_each_;  // number of timed replays of a chain, its first ones
  VkQueryPool queries_ = VK_NULL_HANDLE;
  KernelPlan counting_;
  Operand n_counted_;  // u32 [kSlots + 1], since the clock was made; the last is for kUnclocked
  std::vector<uint32_t> n_counted_before_;
  std::vector<bool> may_be_left_out_;  // of the taken slots
  std::vector<uint32_t> taken_;        // result of take()
  std::vector<uint64_t> ticks_;        // [kSlots, n_stages + 1]
  uint32_t n_clocked_ = 0, n_unclocked_ = 0;
  std::vector<double> us_;  // [n_stages], of the n_clocked replays
};

}  // namespace vesper

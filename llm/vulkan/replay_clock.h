// The clock of a recording's replays: timestamp queries in its command buffers.
//
// Several replays may be under way at once, each a command buffer with queries of its own: a slot.
// Used by VulkanDevice while Clock is not kOff.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "llm/device.h"
#include "llm/vulkan/vulkan_context.h"
#include "llm/vulkan/vulkan_memory.h"

namespace vesper {

class ReplayClock {
 public:
  static constexpr uint32_t kSlots = 16;

  // Throws Error(kDevice) if the device's queue has no timestamps.
  ReplayClock(VulkanContext& context, VulkanMemory& memory, uint32_t n_stages);
  ~ReplayClock();
  ReplayClock(const ReplayClock&) = delete;
  ReplayClock& operator=(const ReplayClock&) = delete;

  // Into the command buffer of a slot: before its first stage (with `stop` its word is copied, to
  // tell later whether the replay was left out), and at the end of each.
  void begin(VkCommandBuffer commands, uint32_t slot, std::optional<VulkanMemory::Place> stop);
  void end_stage(VkCommandBuffer commands, uint32_t slot, uint32_t stage);

  // The first `n_slots` command buffers were submitted; none may be again before collect().
  void submitted(uint32_t n_slots);
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
  Operand stop_words_;  // u32 [kSlots], as each replay found it
  bool has_stop_ = false;
  uint32_t n_submitted_ = 0;
  std::vector<uint64_t> ticks_;  // [kSlots, n_stages + 1]
  ReplayTimes times_;
};

}  // namespace vesper

#include "llm/vulkan/replay_clock.h"

#include <algorithm>
#include <array>

#include "error/error.h"

namespace vesper {

ReplayClock::ReplayClock(VulkanContext& context, VulkanMemory& memory, uint32_t n_stages)
    : context_(context), memory_(memory), n_stages_(n_stages) {
  const VulkanCapabilities& c = context.capabilities();
  if (c.timestamp_ns == 0) {
    throw Error(ErrorKind::kDevice, c.name + ": its queue has no timestamps");
  }
  VkQueryPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = first_query(kSlots);
  check_vulkan(vkCreateQueryPool(context.device(), &info, nullptr, &queries_), "vkCreateQueryPool");
  stop_words_ = memory.allocate(kSlots * sizeof(uint32_t), "stop words of clocked replays");
  ticks_.resize(first_query(kSlots));
}

ReplayClock::~ReplayClock() {
  vkDeviceWaitIdle(context_.device());
  vkDestroyQueryPool(context_.device(), queries_, nullptr);
}

void ReplayClock::begin(VkCommandBuffer commands, uint32_t slot,
                        std::optional<VulkanMemory::Place> stop) {
  vkCmdResetQueryPool(commands, queries_, first_query(slot), n_stages_ + 1);
  if (stop) {
    has_stop_ = true;
    const VulkanMemory::Place words = memory_.place(stop_words_);
    VkBufferCopy range{};
    range.srcOffset = stop->offset_bytes;
    range.dstOffset = words.offset_bytes + slot * sizeof(uint32_t);
    range.size = sizeof(uint32_t);
    vkCmdCopyBuffer(commands, stop->buffer, words.buffer, 1, &range);
  }
  vkCmdWriteTimestamp2(commands, VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT, queries_,
                       first_query(slot));
}

void ReplayClock::end_stage(VkCommandBuffer commands, uint32_t slot, uint32_t stage) {
  vkCmdWriteTimestamp2(commands, VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT, queries_,
                       first_query(slot) + stage + 1);
}

void ReplayClock::submitted(uint32_t n_slots) { n_submitted_ = n_slots; }

void ReplayClock::collect() {
  if (n_submitted_ == 0) return;
  context_.wait();
  const uint32_t n = first_query(n_submitted_);
  check_vulkan(
      vkGetQueryPoolResults(context_.device(), queries_, 0, n, n * sizeof(uint64_t), ticks_.data(),
                            sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
      "vkGetQueryPoolResults");
  std::array<uint32_t, kSlots> stopped{};
  if (has_stop_) memory_.read(stop_words_, stopped.data());
  times_.us.resize(n_stages_);
  const double tick_us = context_.capabilities().timestamp_ns / 1000;
  for (uint32_t slot = 0; slot < n_submitted_ && stopped[slot] == 0; ++slot) {
    const uint64_t* ticks = ticks_.data() + first_query(slot);
    for (uint32_t stage = 0; stage < n_stages_; ++stage) {
      times_.us[stage] += static_cast<double>(ticks[stage + 1] - ticks[stage]) * tick_us;
    }
    ++times_.n_runs;
  }
  n_submitted_ = 0;
}

void ReplayClock::forget() {
  collect();
  times_ = {};
}

}  // namespace vesper

#include "llm/vulkan/replay_clock.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "error/error.h"

namespace vesper {

ReplayClock::ReplayClock(VulkanContext& context, VulkanMemory& memory, Pipelines& pipelines,
                         uint32_t n_stages)
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
  vkResetQueryPool(context.device(), queries_, 0, info.queryCount);
  n_counted_before_.resize(kSlots);
  n_counted_ = memory.allocate(kSlots * sizeof(uint32_t), "count of clocked replays");
  memory.write(n_counted_, n_counted_before_.data());
  counting_.pipeline = {Shader::kCountReplay, {context.capabilities().subgroup_size}};
  counting_.push_bytes = sizeof(uint64_t);
  pipelines.prepare({counting_.pipeline});
  ticks_.resize(first_query(kSlots));
}

ReplayClock::~ReplayClock() {
  vkDeviceWaitIdle(context_.device());
  vkDestroyQueryPool(context_.device(), queries_, nullptr);
}

void ReplayClock::mark_reached(VkCommandBuffer commands, uint32_t slot, uint32_t mark) {
  vkCmdWriteTimestamp2(commands, VK_PIPELINE_STAGE_2_TOP_OF_PIPE_BIT, queries_,
                       first_query(slot) + mark);
}

void ReplayClock::mark_done(VkCommandBuffer commands, uint32_t slot, uint32_t mark) {
  vkCmdWriteTimestamp2(commands, VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT, queries_,
                       first_query(slot) + mark);
}

KernelPlan ReplayClock::counting(uint32_t slot) const {
  KernelPlan plan = counting_;
  const uint64_t address =
      memory_.address(n_counted_.part(slot * sizeof(uint32_t), sizeof(uint32_t)));
  std::memcpy(plan.push.data(), &address, sizeof address);
  return plan;
}

ReplayClock::Slots ReplayClock::take(uint32_t n_wanted, bool may_be_left_out) {
  if (may_be_left_out_.size() == kSlots) collect();
  const auto first = static_cast<uint32_t>(may_be_left_out_.size());
  const uint32_t n = std::min(n_wanted, kSlots - first);
  may_be_left_out_.resize(first + n, may_be_left_out);
  return {first, n};
}

void ReplayClock::collect() {
  if (may_be_left_out_.empty()) return;
  context_.wait();
  const auto n_slots = static_cast<uint32_t>(may_be_left_out_.size());
  const uint32_t n = first_query(n_slots);
  check_vulkan(
      vkGetQueryPoolResults(context_.device(), queries_, 0, n, n * sizeof(uint64_t), ticks_.data(),
                            sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
      "vkGetQueryPoolResults");
  vkResetQueryPool(context_.device(), queries_, 0, n);
  std::vector<uint32_t> n_counted(kSlots);
  memory_.read(n_counted_, n_counted.data());
  times_.us.resize(n_stages_);
  const double tick_us = context_.capabilities().timestamp_ns / 1000;
  for (uint32_t slot = 0; slot < n_slots; ++slot) {
    if (may_be_left_out_[slot] && n_counted[slot] == n_counted_before_[slot]) continue;
    const uint64_t* ticks = ticks_.data() + first_query(slot);
    for (uint32_t stage = 0; stage < n_stages_; ++stage) {
      times_.us[stage] += static_cast<double>(ticks[stage + 1] - ticks[stage]) * tick_us;
    }
    ++times_.n_runs;
  }
  n_counted_before_ = std::move(n_counted);
  may_be_left_out_.clear();
}

void ReplayClock::forget() {
  collect();
  times_ = {};
}

}  // namespace vesper

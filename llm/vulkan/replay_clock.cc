#include "llm/vulkan/replay_clock.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

// With a slot for each replay tiny.en took 6.5% longer on an H200.
constexpr uint32_t kClockedEach = 4;

}  // namespace

ReplayClock::ReplayClock(VulkanContext& context, VulkanMemory& memory, Pipelines& pipelines,
                         uint32_t n_stages, Clock clock)
    : context_(context),
      memory_(memory),
      n_stages_(n_stages),
      clocked_each_(clock == Clock::kPerStage ? kClockedEach : 1),
      us_(n_stages) {
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
  n_counted_before_.resize(kSlots + 1);
  n_counted_ = memory.allocate((kSlots + 1) * sizeof(uint32_t), "count of clocked replays");
  memory.write(n_counted_, n_counted_before_.data());
  counting_.pipeline = {Shader::kCountReplay, {context.capabilities().subgroup_size}};
  counting_.push_bytes = sizeof(uint64_t);
  pipelines.prepare({counting_.pipeline});
  ticks_.resize(first_query(kSlots));
}

ReplayClock::~ReplayClock() {
  context_.wait_for_queue();
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

const std::vector<uint32_t>& ReplayClock::take(uint32_t n, bool may_be_left_out) {
  if (may_be_left_out_.size() + n > kSlots) collect();
  taken_.assign(n, kUnclocked);
  for (uint32_t i = 0; i < n; i += clocked_each_) {
    taken_[i] = static_cast<uint32_t>(may_be_left_out_.size());
    may_be_left_out_.push_back(may_be_left_out);
  }
  if (!may_be_left_out) {
    n_unclocked_ += static_cast<uint32_t>(std::count(taken_.begin(), taken_.end(), kUnclocked));
  }
  return taken_;
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
  std::vector<uint32_t> n_counted(kSlots + 1);
  memory_.read(n_counted_, n_counted.data());
  const double tick_us = context_.capabilities().timestamp_ns / 1000;
  for (uint32_t slot = 0; slot < n_slots; ++slot) {
    if (may_be_left_out_[slot] && n_counted[slot] == n_counted_before_[slot]) continue;
    const uint64_t* ticks = ticks_.data() + first_query(slot);
    for (uint32_t stage = 0; stage < n_stages_; ++stage) {
      us_[stage] += static_cast<double>(ticks[stage + 1] - ticks[stage]) * tick_us;
    }
    ++n_clocked_;
  }
  n_unclocked_ += n_counted[kUnclocked] - n_counted_before_[kUnclocked];
  n_counted_before_ = std::move(n_counted);
  may_be_left_out_.clear();
}

ReplayTimes ReplayClock::times() const {
  ReplayTimes times{n_clocked_ + n_unclocked_, us_};
  if (n_clocked_ != 0) {
    const double per_clocked = static_cast<double>(times.n_runs) / n_clocked_;
    for (double& us : times.us) us *= per_clocked;
  }
  return times;
}

void ReplayClock::forget() {
  collect();
  n_clocked_ = n_unclocked_ = 0;
  std::fill(us_.begin(), us_.end(), 0.0);
}

}  // namespace vesper

#include "llm/vulkan/context/vulkan_context.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "llm/vulkan/context/vulkan_features.h"

namespace vesper {

void record_barrier(VkCommandBuffer commands, const BarrierScope& before,
                    const BarrierScope& after) {
  auto barrier = vulkan_struct<VkMemoryBarrier2>(VK_STRUCTURE_TYPE_MEMORY_BARRIER_2);
  barrier.srcStageMask = before.stages;
  barrier.srcAccessMask = before.accesses;
  barrier.dstStageMask = after.stages;
  barrier.dstAccessMask = after.accesses;
  auto dependency = vulkan_struct<VkDependencyInfo>(VK_STRUCTURE_TYPE_DEPENDENCY_INFO);
  dependency.memoryBarrierCount = 1;
  dependency.pMemoryBarriers = &barrier;
  vkCmdPipelineBarrier2(commands, &dependency);
}

VulkanContext::Opened::Opened(std::unique_ptr<VulkanInstance> from, uint32_t index,
                              const VulkanOptions& options)
    : instance(std::move(from)),
      physical(instance->physical(index)),
      capabilities(*instance->devices().at(index).capabilities),
      matrix_model(options.matrix_model) {
  vkGetPhysicalDeviceProperties(physical, &properties);
  if (matrix_model) {
    capabilities.matrix_m = capabilities.matrix_n = capabilities.matrix_k = 8;
    capabilities.weight_matrix_side = 8;
  }
  const VulkanCapabilities& c = capabilities;
  DeviceFeatures offered;
  vkGetPhysicalDeviceFeatures2(physical, &offered.core);
  DeviceFeatures wanted;
  wanted.v11.storageBuffer16BitAccess = VK_TRUE;
  wanted.v12.storageBuffer8BitAccess = VK_TRUE;
  wanted.v12.hostQueryReset = VK_TRUE;
  wanted.v12.bufferDeviceAddress = VK_TRUE;
  // The validation layers need it to check addresses.
  wanted.core.features.shaderInt64 = options.gpu_assisted && offered.core.features.shaderInt64;
  // Shaders for matrix units and those that wait for counters need them.
  wanted.v12.vulkanMemoryModel = offered.v12.vulkanMemoryModel;
  wanted.v12.vulkanMemoryModelDeviceScope = offered.v12.vulkanMemoryModelDeviceScope;
  wanted.v13.synchronization2 = VK_TRUE;
  wanted.v13.maintenance4 = VK_TRUE;
  wanted.v13.shaderIntegerDotProduct = VK_TRUE;
  wanted.v13.subgroupSizeControl = c.fixed_subgroups;
  wanted.v13.computeFullSubgroups = c.fixed_subgroups;
  std::vector<const char*> extensions;
  wanted.v12.shaderFloat16 = c.has_cooperative_matrix();
  if (c.has_cooperative_matrix() && !matrix_model) {
    wanted.matrix.cooperativeMatrix = VK_TRUE;
    wanted.chain(wanted.matrix);
    extensions.push_back(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  }
  if (c.conditional_rendering) {
    wanted.conditional.conditionalRendering = VK_TRUE;
    wanted.chain(wanted.conditional);
    extensions.push_back(VK_EXT_CONDITIONAL_RENDERING_EXTENSION_NAME);
  }
  if (c.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  pipeline_statistics = options.pipeline_statistics && c.pipeline_statistics;
  if (pipeline_statistics) {
    wanted.executables.pipelineExecutableInfo = VK_TRUE;
    wanted.chain(wanted.executables);
    extensions.push_back(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  }

  VkQueueFamilyProperties family{};
  queue_family = static_cast<uint32_t>(compute_family(physical, &family));
  const std::array<float, 2> priorities = {1.0f, 1.0f};
  n_queues = options.opens_beside ? std::min(family.queueCount, 2u) : 1;
  auto queue_info =
      vulkan_struct<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queue_info.queueFamilyIndex = queue_family;
  queue_info.queueCount = n_queues;
  queue_info.pQueuePriorities = priorities.data();
  auto info = vulkan_struct<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  info.pNext = &wanted.core;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue_info;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  check_vulkan(vkCreateDevice(physical, &info, nullptr, &device), "vkCreateDevice");
  for (uint32_t i = 0; i < n_queues; ++i) {
    vkGetDeviceQueue(device, queue_family, i, &queues[i].queue);
  }
  if (c.conditional_rendering) {
    begin_conditional = reinterpret_cast<PFN_vkCmdBeginConditionalRenderingEXT>(
        vkGetDeviceProcAddr(device, "vkCmdBeginConditionalRenderingEXT"));
    end_conditional = reinterpret_cast<PFN_vkCmdEndConditionalRenderingEXT>(
        vkGetDeviceProcAddr(device, "vkCmdEndConditionalRenderingEXT"));
  }
}

VulkanContext::Opened::~Opened() { vkDestroyDevice(device, nullptr); }

VulkanContext::VulkanContext(std::shared_ptr<Opened> opened, uint32_t queue)
    : opened_(std::move(opened)), queue_(opened_->queues.at(queue)) {}

VulkanContext::VulkanContext(std::unique_ptr<VulkanInstance> instance, uint32_t index,
                             const VulkanOptions& options)
    : VulkanContext(std::make_shared<Opened>(std::move(instance), index, options), 0) {
  open_queue();
}

VulkanContext::VulkanContext(Beside beside)
    : VulkanContext(beside.first.opened_, beside.first.opened_->n_queues - 1) {
  open_queue();
}

void VulkanContext::open_queue() {
  auto pool_info =
      vulkan_struct<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool_info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool_info.queueFamilyIndex = opened_->queue_family;
  check_vulkan(vkCreateCommandPool(device(), &pool_info, nullptr, &pool_), "vkCreateCommandPool");
  const auto fence_info = vulkan_struct<VkFenceCreateInfo>(VK_STRUCTURE_TYPE_FENCE_CREATE_INFO);
  for (VkFence& fence : fences_) {
    check_vulkan(vkCreateFence(device(), &fence_info, nullptr, &fence), "vkCreateFence");
  }

  // Ends every submission: makes its results visible to the host.
  host_barrier_ = allocate_command_buffer();
  auto begin = vulkan_struct<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  check_vulkan(vkBeginCommandBuffer(host_barrier_, &begin), "vkBeginCommandBuffer");
  record_barrier(
      host_barrier_,
      {VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_TRANSFER_BIT,
       VK_ACCESS_2_SHADER_WRITE_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT},
      {VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT | VK_ACCESS_2_HOST_WRITE_BIT});
  check_vulkan(vkEndCommandBuffer(host_barrier_), "vkEndCommandBuffer");
}

VulkanContext::~VulkanContext() {
  wait_for_queue();
  for (VkFence fence : fences_) vkDestroyFence(device(), fence, nullptr);
  if (pool_) vkDestroyCommandPool(device(), pool_, nullptr);
}

void VulkanContext::wait_for_queue() {
  const std::lock_guard lock(queue_.mutex);
  vkQueueWaitIdle(queue_.queue);
}

VkCommandBuffer VulkanContext::allocate_command_buffer() {
  auto info =
      vulkan_struct<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VkCommandBuffer buffer = VK_NULL_HANDLE;
  check_vulkan(vkAllocateCommandBuffers(device(), &info, &buffer), "vkAllocateCommandBuffers");
  return buffer;
}

uint64_t VulkanContext::submit(const VkCommandBuffer* buffers, uint32_t count) {
  auto one = vulkan_struct<VkCommandBufferSubmitInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO);
  submit_infos_.clear();
  const auto add = [&](VkCommandBuffer commands) {
    one.commandBuffer = commands;
    submit_infos_.push_back(one);
  };
  const uint64_t number = next_submission();
  if (is_recording_) {
    Recorded& recorded = recorded_[recorded_turn_];
    check_vulkan(vkEndCommandBuffer(recorded.commands), "vkEndCommandBuffer");
    recorded.submission = number;
    recorded_turn_ = (recorded_turn_ + 1) % recorded_.size();
    is_recording_ = false;
    add(recorded.commands);
  }
  std::for_each_n(buffers, count, add);
  add(host_barrier_);
  auto info = vulkan_struct<VkSubmitInfo2>(VK_STRUCTURE_TYPE_SUBMIT_INFO_2);
  info.commandBufferInfoCount = static_cast<uint32_t>(submit_infos_.size());
  info.pCommandBufferInfos = submit_infos_.data();
  if (number > kMaxInFlight) wait(number - kMaxInFlight);
  const VkFence fence = fences_[number % kMaxInFlight];
  check_vulkan(vkResetFences(device(), 1, &fence), "vkResetFences");
  {
    const std::lock_guard lock(queue_.mutex);
    check_vulkan(vkQueueSubmit2(queue_.queue, 1, &info, fence), "vkQueueSubmit2");
  }
  return submitted_ = number;
}

VkCommandBuffer VulkanContext::before_next() {
  Recorded& recorded = recorded_[recorded_turn_];
  if (is_recording_) return recorded.commands;
  if (!recorded.commands) recorded.commands = allocate_command_buffer();
  wait(recorded.submission);
  auto begin = vulkan_struct<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  check_vulkan(vkBeginCommandBuffer(recorded.commands, &begin), "vkBeginCommandBuffer");
  is_recording_ = true;
  return recorded.commands;
}

bool VulkanContext::is_idle() {
  if (is_recording_) return false;
  if (waited_ == submitted_) return true;
  const VkResult status = vkGetFenceStatus(device(), fences_[submitted_ % kMaxInFlight]);
  if (status == VK_NOT_READY) return false;
  check_vulkan(status, "vkGetFenceStatus");
  waited_ = submitted_;
  return true;
}

void VulkanContext::wait(uint64_t submission) {
  if (waited_ >= submission) return;
  if (submission > submitted_) submit(nullptr, 0);
  // Submissions end in order, and those up to submitted_ - kMaxInFlight have been waited for.
  const VkFence fence = fences_[submission % kMaxInFlight];
  if (capabilities().tuning.polls) {
    using Steady = std::chrono::steady_clock;
    const Steady::time_point until = Steady::now() + std::chrono::milliseconds(2);
    while (Steady::now() < until && vkGetFenceStatus(device(), fence) == VK_NOT_READY) {
    }
  }
  check_vulkan(vkWaitForFences(device(), 1, &fence, VK_TRUE, UINT64_MAX), "vkWaitForFences");
  waited_ = submission;
}

void VulkanContext::begin_conditional(VkCommandBuffer commands, VkBuffer buffer,
                                      uint64_t offset_bytes) const {
  auto info = vulkan_struct<VkConditionalRenderingBeginInfoEXT>(
      VK_STRUCTURE_TYPE_CONDITIONAL_RENDERING_BEGIN_INFO_EXT);
  info.buffer = buffer;
  info.offset = offset_bytes;
  info.flags = VK_CONDITIONAL_RENDERING_INVERTED_BIT_EXT;  // commands run while the word is zero
  opened_->begin_conditional(commands, &info);
}

void VulkanContext::end_conditional(VkCommandBuffer commands) const {
  opened_->end_conditional(commands);
}

}  // namespace vesper

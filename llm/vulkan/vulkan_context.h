// An opened Vulkan device: instance, device, compute queue, what it can do, and submission.
#pragma once

#include <vulkan/vulkan.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "llm/vulkan/vulkan_device.h"

namespace vesper {

// What kernels and recordings choose by. From the driver, less what VulkanOptions forbids.
struct VulkanCapabilities {
  std::string name;
  bool is_hardware_gpu = false;
  uint64_t memory_bytes = 0;  // the largest device-local heap
  uint32_t subgroup_size = 1;
  bool fixed_subgroups = false;  // pipelines can ask for full subgroups of subgroup_size
  uint32_t max_workgroup_threads = 0;
  uint32_t max_groups[3] = {};
  uint32_t shared_bytes = 0;
  uint32_t n_processors = 0;  // that run workgroups; 0 if the driver does not tell
  uint64_t max_allocation_bytes = 0;
  bool conditional_rendering = false;
  bool memory_budget = false;
  double timestamp_ns = 0;  // a tick; 0: the queue has no timestamps
  // f16 x f16 -> f32 at subgroup scope; 0 where there are none.
  uint32_t matrix_m = 0, matrix_n = 0, matrix_k = 0;
  bool has_cooperative_matrix() const { return matrix_m != 0; }
};

// Throws Error(kDevice) naming the call unless `result` is VK_SUCCESS.
void check_vulkan(VkResult result, const char* call);

class VulkanContext {
 public:
  VulkanContext(uint32_t index, const VulkanOptions& options);
  ~VulkanContext();
  VulkanContext(const VulkanContext&) = delete;
  VulkanContext& operator=(const VulkanContext&) = delete;

  VkDevice device() const { return device_; }
  VkPhysicalDevice physical() const { return physical_; }
  const VulkanCapabilities& capabilities() const { return capabilities_; }
  const VkPhysicalDeviceProperties& properties() const { return properties_; }

  // A primary command buffer of the context's pool, for the context's life.
  VkCommandBuffer allocate_command_buffer();
  // Submits in order; all that was submitted before runs before (each buffer begins and ends with
  // the barriers it needs). Does not wait.
  // Returns the number of this submission.
  uint64_t submit(const VkCommandBuffer* buffers, uint32_t count);
  // Returns when everything submitted, up to that number, has run and the host can read what it
  // wrote.
  void wait(uint64_t submission);
  void wait() { wait(submitted_); }
  void begin_conditional(VkCommandBuffer commands, VkBuffer buffer, uint64_t offset_bytes) const;
  void end_conditional(VkCommandBuffer commands) const;

 private:
  void open_device(const VulkanOptions& options);
  void destroy();

  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::function<void(const std::string&)> on_message_;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties_{};
  VulkanCapabilities capabilities_;
  VkDevice device_ = VK_NULL_HANDLE;
  uint32_t queue_family_ = 0;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  // Submission n signals fences_[n % kMaxInFlight].
  static constexpr uint32_t kMaxInFlight = 16;
  std::array<VkFence, kMaxInFlight> fences_{};
  uint64_t submitted_ = 0;  // the number of the last submission
  uint64_t waited_ = 0;     // the last one known to have run
  VkCommandBuffer host_barrier_ = VK_NULL_HANDLE;
  std::vector<VkCommandBufferSubmitInfo> submit_infos_;
  PFN_vkCmdBeginConditionalRenderingEXT begin_conditional_ = nullptr;
  PFN_vkCmdEndConditionalRenderingEXT end_conditional_ = nullptr;
};

}  // namespace vesper

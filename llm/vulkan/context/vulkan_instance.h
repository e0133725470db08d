// The loaded Vulkan drivers and the capabilities of their devices. Loading drivers is most of the
// time of opening a device (0.1 s for NVIDIA's), so a program does it once: a listed device is
// opened on the same instance.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "llm/vulkan/context/vulkan_listing.h"
#include "llm/vulkan/context/vulkan_tuning.h"

namespace vesper {

// What kernels and programs depend on: the driver's facts, limited by VulkanOptions.
struct VulkanCapabilities {
  std::string name;
  bool is_hardware_gpu = false;
  uint64_t memory_bytes = 0;  // largest device-local heap
  uint32_t subgroup_size = 1;
  bool fixed_subgroups = false;  // pipelines can require full subgroups of subgroup_size
  uint32_t max_workgroup_threads = 0;
  uint32_t max_groups[3] = {};
  uint32_t shared_bytes = 0;
  uint32_t n_processors = 0;  // processors that run workgroups; 0: unknown
  uint64_t max_allocation_bytes = 0;
  // The workgroups of a dispatch start after those of the dispatches before it, with or without a
  // barrier. Vulkan does not require it: this is known of the driver.
  bool starts_in_order = false;
  bool conditional_rendering = false;
  bool memory_budget = false;
  bool pipeline_statistics = false;
  double timestamp_ns = 0;  // per tick; 0: the queue has no timestamps
  // Shape of cooperative matrices, f16 x f16 -> f32 at subgroup scope; 0: not used.
  uint32_t matrix_m = 0, matrix_n = 0, matrix_k = 0;
  // A lane has the same elements of sums as of matrices A and B (kernels/matrix_layout.h); known of
  // an open device.
  bool matrix_rows_in_quads = false;
  // Rows and columns of the matrices in whose order f16 weights for many rows are stored
  // (kernels/weight_layout.h); 0: row-major.
  uint32_t weight_matrix_side = 0;
  // The driver offers cooperative matrices, but this build has no shaders for them (glslang 12).
  bool lacks_matrix_shaders = false;
  VulkanTuning tuning{};  // of the kind of device
  bool has_cooperative_matrix() const { return matrix_m != 0; }
};

// Throws Error(kDevice) naming the call unless `result` is VK_SUCCESS.
void check_vulkan(VkResult result, const char* call);

// The queue family to use: compute, preferably without graphics; -1 if there is none.
int compute_family(VkPhysicalDevice physical, VkQueueFamilyProperties* properties);

class VulkanInstance {
 public:
  // Throws Error(kDevice) if there is no driver, or requested layers are missing.
  explicit VulkanInstance(const VulkanOptions& options);
  ~VulkanInstance();
  VulkanInstance(const VulkanInstance&) = delete;
  VulkanInstance& operator=(const VulkanInstance&) = delete;

  // In the driver's order.
  const std::vector<VulkanListing>& devices() const { return devices_; }
  VkPhysicalDevice physical(uint32_t index) const { return physical_.at(index); }

 private:
  void listen();
  void destroy();

  std::function<void(const std::string&)> on_message_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::vector<VkPhysicalDevice> physical_;
  std::vector<VulkanListing> devices_;
};

// Null if there is no driver.
std::unique_ptr<VulkanInstance> vulkan_instance(const VulkanOptions& options);

}  // namespace vesper

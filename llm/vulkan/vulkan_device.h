// The Device on Vulkan 1.3: tables become command buffers of compute dispatches.
//
// In: weights, buffers and tables (llm/table/device.h). A command is one pipeline, one push of
// constants (operand addresses, then parameters) and one dispatch. Barriers are only between
// stages. Runs on GPUs and, for tests, on Mesa's lavapipe. Made by open_device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/table/device.h"

namespace vesper {

struct VulkanCapabilities;

// A physical device; its number is its index in the driver's list.
struct VulkanListing {
  std::string name;
  std::string type;  // "discrete GPU", "integrated GPU", "virtual GPU", "CPU", "other"
  bool is_hardware_gpu = false;
  uint64_t memory_bytes = 0;  // device-local memory
  std::string unusable;       // what the device lacks for the engine; empty if usable
  std::shared_ptr<const VulkanCapabilities> capabilities;  // if usable
};
// All devices; empty if there is no driver.
std::vector<VulkanListing> list_vulkan_devices();
// Opens "auto" (the first hardware GPU), "vulkan" (the same, otherwise the first device of any
// kind) or "vulkan:N". Throws Error(kUsage) for another name, Error(kDevice) if there is no driver
// or no such device, or naming what it lacks.
std::unique_ptr<Device> open_vulkan_device(std::string_view name, const DeviceOptions& options);
// The first usable GPU; null if there is none. Loads drivers only if the system has a GPU
// (llm/vulkan/gpu_nodes.h).
std::unique_ptr<Device> open_vulkan_gpu(const DeviceOptions& options);

// The index in `devices` of the device that open_vulkan_device would open. Throws the same errors.
uint32_t choose_vulkan_device(std::string_view name, const std::vector<VulkanListing>& devices);

// A usable device known only from the driver's facts, not opened. It chooses formats and computes
// the size of weights. Everything else throws Error(kInternal).
std::unique_ptr<Device> plan_vulkan_device(const VulkanListing& listing);

// Options for tests and measurements, in addition to DeviceOptions.
struct VulkanOptions {
  bool full_barriers = false;
  bool cooperative_matrices = true;   // false: as if the device had none
  bool conditional_rendering = true;  // likewise
  bool host_visible = true;           // false: as if only staging memory were mappable
  // If set, the validation layers are loaded and call this with every warning and error.
  // Error(kDevice) if the layers are not installed.
  std::function<void(const std::string&)> on_message;
  bool synchronization = false;  // the layers also check barriers between commands and copies
  bool gpu_assisted = false;     // the layers also add checks of addresses to every shader
};
std::unique_ptr<Device> open_vulkan_device(uint32_t index, const VulkanOptions& options);

}  // namespace vesper

// The Device on Vulkan 1.3: tables become command buffers of compute dispatches.
//
// In come weights, buffers and tables (llm/table/device.h); every command becomes one pipeline, one
// push constant block (the operands' addresses, then parameters) and one dispatch, with barriers
// only between the table's stages. Runs on GPUs and, for tests, on Mesa's lavapipe. Made by
// open_device.
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

// A physical device as the driver lists it; its number is its place in the list.
struct VulkanListing {
  std::string name;
  std::string type;  // "discrete GPU", "integrated GPU", "virtual GPU", "CPU", "other"
  bool is_hardware_gpu = false;
  uint64_t memory_bytes = 0;  // of device-local memory
  std::string unusable;       // why this device cannot run the engine; empty if it can
  std::shared_ptr<const VulkanCapabilities> capabilities;  // if it can
};
// All devices; empty if there is no driver.
std::vector<VulkanListing> list_vulkan_devices();
// Opens "auto" (the first hardware GPU), "vulkan" (that, or else the first device of any kind) or
// "vulkan:N". Throws Error(kUsage) for another name, Error(kDevice) if there is no such device, it
// lacks something (named in the message), or there is no driver.
std::unique_ptr<Device> open_vulkan_device(std::string_view name, const DeviceOptions& options);
// The first usable device that is a GPU; null if there is none. Drivers are loaded only where the
// system shows one (llm/vulkan/gpu_nodes.h).
std::unique_ptr<Device> open_vulkan_gpu(const DeviceOptions& options);

// The place in `devices` of the one that open_vulkan_device would open by that name. Throws as it
// does.
uint32_t choose_vulkan_device(std::string_view name, const std::vector<VulkanListing>& devices);

// A usable device as far as its driver's facts go, without opening it: it says what it would choose
// and how much weights would take. Whatever needs the device throws Error(kInternal).
std::unique_ptr<Device> plan_vulkan_device(const VulkanListing& listing);

// What tests and measurements choose beyond DeviceOptions.
struct VulkanOptions {
  bool full_barriers = false;
  bool cooperative_matrices = true;   // false: as if the device had none
  bool conditional_rendering = true;  // likewise
  bool host_visible = true;           // false: as if only staging memory could be mapped
  // If set, the validation layers are loaded, with their GPU-assisted checks if `gpu_assisted`, and
  // this is called with every warning and error. Error(kDevice) if the layers are not installed.
  std::function<void(const std::string&)> on_message;
  bool gpu_assisted = false;
};
std::unique_ptr<Device> open_vulkan_device(uint32_t index, const VulkanOptions& options);

}  // namespace vesper

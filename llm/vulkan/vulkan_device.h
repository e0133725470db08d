// The Device on Vulkan 1.3: tables become command buffers of compute dispatches.
//
// In: weights, buffers and tables (llm/table/device.h). A command is one pipeline, one push of
// constants (operand addresses, then parameters) and one dispatch. Barriers are only between
// stages, and only where the next stage does not wait by a counter (stage_order.h). Runs on GPUs
// and, for tests, on Mesa's lavapipe. Made by open_device.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "llm/table/device.h"
#include "llm/vulkan/context/vulkan_listing.h"

namespace vesper {

// Opens "auto" (the first hardware GPU), "vulkan" (the same, otherwise the first device of any
// kind) or "vulkan:N". Throws Error(kUsage) for another name, Error(kDevice) if there is no driver
// or no such device, or naming what it lacks.
std::unique_ptr<Device> open_vulkan_device(std::string_view name, const DeviceOptions& options);
// The first usable GPU; null if there is none. Loads drivers only if the system has a GPU
// (llm/vulkan/context/gpu_nodes.h).
std::unique_ptr<Device> open_vulkan_gpu(const DeviceOptions& options);

// The index in `devices` of the device that open_vulkan_device would open. Throws the same errors.
uint32_t choose_vulkan_device(std::string_view name, const std::vector<VulkanListing>& devices);

// A usable device known only from the driver's facts, not opened. It chooses formats and computes
// the size of weights. Everything else throws Error(kInternal).
std::unique_ptr<Device> plan_vulkan_device(const VulkanListing& listing);

std::unique_ptr<Device> open_vulkan_device(uint32_t index, const VulkanOptions& options);

}  // namespace vesper

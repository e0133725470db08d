// Device on a GPU through Vulkan.
#pragma once

#include <memory>
#include <string_view>

#include "llm/device.h"

namespace vesper {

// Whether some Vulkan device is hardware: what `auto` asks before it takes Vulkan. False where
// there is no loader or no driver.
bool has_hardware_vulkan_device();

// `name` is "auto" (the first hardware GPU), "vulkan" (the same, else any) or "vulkan:N" (number N
// of the loader's list). Throws Error(kDevice) if there is none, or it lacks a needed feature.
std::unique_ptr<Device> open_vulkan_device(std::string_view name, const DeviceOptions& options);

}  // namespace vesper

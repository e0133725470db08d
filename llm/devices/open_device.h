// Opens a device by its name: "cpu", "vulkan", "vulkan:N" or "auto". Used by sessions and tests.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "llm/table/device.h"

namespace vesper {

// Throws Error(kUsage) unless open_device knows names like `name`.
void require_device_name(std::string_view name);

// "cpu", "vulkan", "vulkan:N" or "auto": a hardware GPU if there is one, otherwise the CPU. A
// software Vulkan device is opened only by number, or by "vulkan" if it is the only one. Throws
// Error(kUsage) for another name, Error(kDevice) if there is no such device.
std::unique_ptr<Device> open_device(std::string_view name, const DeviceOptions& options = {});

// "cpu (AMD EPYC 9K84)".
std::string device_text(const DeviceInfo& device);
// The device, the precision, and what the device has and this build does not use: "vulkan (NVIDIA
// H200), f32; matrix units not used: this build was made with a glslang older than 13".
std::string engine_text(const DeviceInfo& device, std::string_view precision);

}  // namespace vesper

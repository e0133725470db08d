// Opens a device by its name: "cpu", "vulkan", "vulkan:N" or "auto". Used by sessions and tests.
#pragma once

#include <memory>
#include <string_view>

#include "llm/table/device.h"

namespace vesper {

// Throws Error(kUsage) unless open_device knows names like `name`.
void require_device_name(std::string_view name);

// "cpu", "vulkan", "vulkan:N" or "auto": a hardware GPU if there is one, otherwise the CPU. A
// software Vulkan device is opened only by number, or by "vulkan" if it is the only one. Throws
// Error(kUsage) for another name, Error(kDevice) if there is no such device.
std::unique_ptr<Device> open_device(std::string_view name, const DeviceOptions& options = {});

}  // namespace vesper

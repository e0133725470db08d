// Opens a device by its name: "cpu", "vulkan", "vulkan:N" or "auto". Used by sessions and tests.
#pragma once

#include <memory>
#include <string_view>

#include "llm/table/device.h"

namespace vesper {

// Throws Error(kUsage) unless `name` is one that open_device may know.
void require_device_name(std::string_view name);

// "cpu", "vulkan", "vulkan:N" or "auto": a hardware GPU if there is one, else the CPU; never a
// software Vulkan device unless asked for by number or by "vulkan" where it is the only one.
// Throws Error(kUsage) for another name, Error(kDevice) if there is no such device.
std::unique_ptr<Device> open_device(std::string_view name, const DeviceOptions& options = {});

}  // namespace vesper

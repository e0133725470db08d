// The devices of this machine, also those that the engine cannot use. Used by the inspection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/table/device.h"

namespace vesper {

struct ListedDevice {
  std::string device;  // its name for open_device: "cpu", "vulkan:0"
  std::string name;    // the hardware's name
  std::string type;    // "CPU", "discrete GPU", "integrated GPU", "virtual GPU", "other"
  bool is_hardware_gpu = false;
  uint64_t memory_bytes = 0;  // for all buffers; 0: unknown
  std::string unusable;       // what it lacks for the engine; empty if usable
  // Of a usable device: one that chooses formats and computes sizes. A Vulkan device is not opened
  // for it. Throws Error(kDevice).
  std::function<std::unique_ptr<Device>()> plan;
};

// The devices that `name` selects, the CPU first. "auto": all. For other names the one device that
// open_device would open, or the same error.
std::vector<ListedDevice> list_devices(std::string_view name = "auto");

}  // namespace vesper

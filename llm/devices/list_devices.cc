#include "llm/devices/list_devices.h"

#include "llm/cpu/cpu_device.h"
#include "llm/cpu/cpu_features.h"
#include "llm/devices/open_device.h"
#ifdef VESPER_HAS_VULKAN
#include "llm/vulkan/vulkan_device.h"
#endif

namespace vesper {

std::vector<ListedDevice> list_devices(std::string_view name) {
  require_device_name(name);
  std::vector<ListedDevice> devices;
  const bool all = name == "auto";
  if (all || name == "cpu") {
    const uint64_t memory_bytes = available_memory_bytes();
    devices.push_back({"cpu", cpu_name(), "CPU", false,
                       memory_bytes == UINT64_MAX ? 0 : memory_bytes, "",
                       [] { return open_cpu_device({}); }});
  }
  if (name == "cpu") return devices;
#ifdef VESPER_HAS_VULKAN
  const std::vector<VulkanListing> listings = list_vulkan_devices();
  const auto add = [&](uint32_t number) {
    const VulkanListing& listing = listings[number];
    devices.push_back({"vulkan:" + std::to_string(number), listing.name, listing.type,
                       listing.is_hardware_gpu, listing.memory_bytes, listing.unusable,
                       [listing] { return plan_vulkan_device(listing); }});
  };
  if (!all) add(choose_vulkan_device(name, listings));
  for (uint32_t i = 0; all && i < listings.size(); ++i) add(i);
#else
  if (!all) open_device(name);  // throws
#endif
  return devices;
}

}  // namespace vesper

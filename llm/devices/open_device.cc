#include "llm/devices/open_device.h"

#include "error/error.h"
#include "llm/cpu/cpu_device.h"
#ifdef VESPER_HAS_VULKAN
#include "llm/vulkan/vulkan_device.h"
#endif

namespace vesper {

void require_device_name(std::string_view name) {
  if (name == "auto" || name == "cpu" || name == "vulkan" || name.starts_with("vulkan:")) return;
  throw Error(ErrorKind::kUsage, "device",
              "expected cpu, vulkan, vulkan:N or auto, found '" + std::string(name) + "'");
}

std::unique_ptr<Device> open_device(std::string_view name, const DeviceOptions& options) {
  require_device_name(name);
  if (name == "cpu") return open_cpu_device(options);
#ifdef VESPER_HAS_VULKAN
  if (name != "auto") return open_vulkan_device(name, options);
  std::unique_ptr<Device> gpu = open_vulkan_gpu(options);
  return gpu ? std::move(gpu) : open_cpu_device(options);
#else
  if (name == "auto") return open_cpu_device(options);
  throw Error(ErrorKind::kDevice, "device",
              "this program was built without Vulkan (VESPER_VULKAN=OFF)");
#endif
}

std::string device_text(const DeviceInfo& device) { return device.kind + " (" + device.name + ")"; }

std::string engine_text(const DeviceInfo& device, std::string_view precision) {
  std::string text = device_text(device) + ", " + std::string(precision);
  for (const DeviceInfo::Capability& capability : device.capabilities) {
    if (!capability.what.starts_with("not used")) continue;
    text += "; " + capability.name + " " + capability.what;
  }
  return text;
}

}  // namespace vesper

#include "llm/device.h"

#include "error/error.h"
#include "llm/cpu/cpu_device.h"
#ifdef VESPER_HAS_VULKAN
#include "llm/vulkan/vulkan_device.h"
#endif

namespace vesper {

namespace {

struct ComputeName {
  Compute compute;
  std::string_view name;
};
constexpr ComputeName kComputeNames[] = {{Compute::kAuto, "auto"},
                                         {Compute::kF32, "f32"},
                                         {Compute::kF16, "f16"},
                                         {Compute::kBF16, "bf16"},
                                         {Compute::kI8, "int8"}};

}  // namespace

Compute parse_compute(std::string_view name) {
  for (const ComputeName& row : kComputeNames) {
    if (row.name == name) return row.compute;
  }
  throw Error(ErrorKind::kUsage, "--compute: expected auto, f32, f16, bf16 or int8, found '" +
                                     std::string(name) + "'");
}

std::string_view compute_name(Compute compute) {
  for (const ComputeName& row : kComputeNames) {
    if (row.compute == compute) return row.name;
  }
  return "unknown";
}

void require_device_name(std::string_view name) {
  if (name == "auto" || name == "cpu" || name == "vulkan" || name.starts_with("vulkan:")) return;
  throw Error(ErrorKind::kUsage, "--device: expected cpu, vulkan, vulkan:N or auto, found '" +
                                     std::string(name) + "'");
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
  throw Error(ErrorKind::kDevice,
              "--device: this program was built without Vulkan (VESPER_VULKAN=OFF)");
#endif
}

}  // namespace vesper

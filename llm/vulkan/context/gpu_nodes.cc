#include "llm/vulkan/context/gpu_nodes.h"

#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "llm/files/folder_names.h"

namespace vesper {

namespace {

struct GpuNode {
  std::string_view folder;  // in the device folder
  std::string_view prefix;  // of the node's name
};
// Device nodes that Vulkan drivers open on Linux. Display-only cards have /dev/dri/card0 without a
// render node. AMD's /dev/kfd is for compute without Vulkan.
constexpr GpuNode kGpuNodes[] = {
    {"dri", "renderD"},       // kernel drivers: Mesa, AMD, Intel, Imagination, virtio
    {"", "nvidia"},           // NVIDIA; in containers often without /dev/dri
    {"", "nvhost-ctrl-gpu"},  // NVIDIA Tegra
    {"", "nvgpu"},            // NVIDIA Tegra since JetPack 6: a folder
    {"", "dxg"},              // GPU in WSL
    {"", "mali"},             // ARM's own driver
    {"", "kgsl-3d"},          // Qualcomm's own driver
    {"", "pvr"},              // Imagination's own driver
    {"", "galcore"},          // VeriSilicon's own driver
};

}  // namespace

bool may_have_gpu(const std::filesystem::path& device_folder) {
#ifdef __linux__
  for (const GpuNode& node : kGpuNodes) {
    std::error_code error;
    const std::vector<std::string> names = names_in_folder(device_folder / node.folder, error);
    if (error == std::errc::no_such_file_or_directory) continue;
    if (error) return true;
    for (const std::string& name : names) {
      if (name.starts_with(node.prefix)) return true;
    }
  }
  return false;
#else
  static_cast<void>(device_folder);
  return true;
#endif
}

}  // namespace vesper

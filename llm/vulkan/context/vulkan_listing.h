// The Vulkan devices of this machine, and the options of opening one, without a Vulkan header.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vesper {

struct VulkanCapabilities;

// A physical device; its number is its index in the driver's list.
struct VulkanListing {
  std::string name;
  std::string type;  // "discrete GPU", "integrated GPU", "virtual GPU", "CPU", "other"
  bool is_hardware_gpu = false;
  uint64_t memory_bytes = 0;  // device-local memory
  std::string unusable;       // what the device lacks for the engine; empty if usable
  std::shared_ptr<const VulkanCapabilities> capabilities;  // if usable
};
// All devices; empty if there is no driver.
std::vector<VulkanListing> list_vulkan_devices();

enum class Shader : uint32_t;  // kernels/pipelines.h

// Options for tests and measurements, in addition to DeviceOptions.
struct VulkanOptions {
  bool full_barriers = false;
  bool opens_beside = false;          // as in DeviceOptions
  bool cooperative_matrices = true;   // false: as if the device had none
  bool conditional_rendering = true;  // likewise
  bool host_visible = true;           // false: as if only staging memory were mappable
  // If set, the validation layers are loaded and call this with every warning and error.
  // Error(kDevice) if the layers are not installed.
  std::function<void(const std::string&)> on_message;
  bool synchronization = false;      // the layers also check barriers between commands and copies
  bool gpu_assisted = false;         // the layers also add checks of addresses to every shader
  bool pipeline_statistics = false;  // Device::variants knows spilled_bytes, if the driver does
  // If set, products and attention are planned as if the device had cooperative matrices of 8 x 8.
  // Returns the SPIR-V of a shader that models them (shaders/cooperative_matrices.glsl), or nothing
  // for other shaders.
  std::span<const uint32_t> (*matrix_model)(Shader) = nullptr;
};

}  // namespace vesper

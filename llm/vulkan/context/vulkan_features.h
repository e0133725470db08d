// Requested features and properties of a Vulkan device, in one chain of structures.
#pragma once

#include <vulkan/vulkan.h>

#include "llm/vulkan/context/cooperative_matrix_khr.h"

namespace vesper {

template <class T>
T vulkan_struct(VkStructureType type) {
  T value{};
  value.sType = type;
  return value;
}

// Requested features and properties, chained.
struct DeviceFeatures {
  VkPhysicalDeviceFeatures2 core =
      vulkan_struct<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  VkPhysicalDeviceVulkan11Features v11 = vulkan_struct<VkPhysicalDeviceVulkan11Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
  VkPhysicalDeviceVulkan12Features v12 = vulkan_struct<VkPhysicalDeviceVulkan12Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  VkPhysicalDeviceVulkan13Features v13 = vulkan_struct<VkPhysicalDeviceVulkan13Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  VkPhysicalDeviceConditionalRenderingFeaturesEXT conditional =
      vulkan_struct<VkPhysicalDeviceConditionalRenderingFeaturesEXT>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_CONDITIONAL_RENDERING_FEATURES_EXT);
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables =
      vulkan_struct<VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR);
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix =
      vulkan_struct<VkPhysicalDeviceCooperativeMatrixFeaturesKHR>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);

  DeviceFeatures() {
    core.pNext = &v11;
    v11.pNext = &v12;
    v12.pNext = &v13;
    last_ = &v13.pNext;
  }
  DeviceFeatures(const DeviceFeatures&) = delete;
  template <class T>
  void chain(T& features) {
    *last_ = &features;
    last_ = &features.pNext;
  }

 private:
  void** last_;
};

}  // namespace vesper

#include "llm/vulkan/context/vulkan_instance.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "error/error.h"
#include "llm/vulkan/context/vulkan_features.h"

namespace vesper {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

const char* result_name(VkResult result) {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "out of device memory";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "initialization failed";
    case VK_ERROR_DEVICE_LOST:
      return "the device was lost";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "a layer is not installed";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "an extension is not present";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "a feature is not present";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "no compatible driver";
    default:
      return "failed";
  }
}

std::vector<std::string> device_extensions(VkPhysicalDevice physical) {
  uint32_t n = 0;
  check_vulkan(vkEnumerateDeviceExtensionProperties(physical, nullptr, &n, nullptr),
               "vkEnumerateDeviceExtensionProperties");
  std::vector<VkExtensionProperties> properties(n);
  check_vulkan(vkEnumerateDeviceExtensionProperties(physical, nullptr, &n, properties.data()),
               "vkEnumerateDeviceExtensionProperties");
  std::vector<std::string> names;
  for (const VkExtensionProperties& p : properties) names.emplace_back(p.extensionName);
  return names;
}

bool contains(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What the engine needs and the device lacks; empty if nothing.
std::string missing(VkPhysicalDevice physical) {
  VkPhysicalDeviceProperties properties;
  vkGetPhysicalDeviceProperties(physical, &properties);
  if (properties.apiVersion < VK_API_VERSION_1_3) {
    return "Vulkan 1.3 (it has " + std::to_string(VK_API_VERSION_MAJOR(properties.apiVersion)) +
           "." + std::to_string(VK_API_VERSION_MINOR(properties.apiVersion)) + ")";
  }
  DeviceFeatures features;
  vkGetPhysicalDeviceFeatures2(physical, &features.core);
  const std::pair<VkBool32, const char*> needed[] = {
      {features.v12.bufferDeviceAddress, "bufferDeviceAddress"},
      {features.v11.storageBuffer16BitAccess, "storageBuffer16BitAccess"},
      {features.v12.storageBuffer8BitAccess, "storageBuffer8BitAccess"},
      {features.v12.hostQueryReset, "hostQueryReset"},
      {features.v13.synchronization2, "synchronization2"},
      {features.v13.maintenance4, "maintenance4"},
      {features.v13.shaderIntegerDotProduct, "shaderIntegerDotProduct"},
  };
  for (const auto& [present, name] : needed) {
    if (!present) return name;
  }
  auto subgroup = vulkan_struct<VkPhysicalDeviceSubgroupProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
  auto properties2 =
      vulkan_struct<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  properties2.pNext = &subgroup;
  vkGetPhysicalDeviceProperties2(physical, &properties2);
  constexpr VkSubgroupFeatureFlags kOperations = VK_SUBGROUP_FEATURE_BASIC_BIT |
                                                 VK_SUBGROUP_FEATURE_ARITHMETIC_BIT |
                                                 VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  if (!(subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) ||
      (subgroup.supportedOperations & kOperations) != kOperations) {
    return "subgroup arithmetic and shuffles in compute shaders";
  }
  VkQueueFamilyProperties family;
  if (compute_family(physical, &family) < 0) return "a compute queue";
  return {};
}

uint64_t largest_device_heap(VkPhysicalDevice physical) {
  VkPhysicalDeviceMemoryProperties memory;
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    if (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) {
      bytes = std::max<uint64_t>(bytes, memory.memoryHeaps[i].size);
    }
  }
  return bytes;
}

bool is_gpu(VkPhysicalDeviceType type) {
  return type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ||
         type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
         type == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU;
}

const char* type_name(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return "discrete GPU";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return "integrated GPU";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return "virtual GPU";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return "CPU";
    default:
      return "other";
  }
}

VkInstance create_instance(const VulkanOptions& options) {
  auto application = vulkan_struct<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  application.pApplicationName = "vesper";
  application.apiVersion = VK_API_VERSION_1_3;
  auto info = vulkan_struct<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  info.pApplicationInfo = &application;
  const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  std::vector<VkValidationFeatureEnableEXT> enabled;
  auto validation =
      vulkan_struct<VkValidationFeaturesEXT>(VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT);
  if (options.on_message) {
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &kValidationLayer;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = &extension;
    if (options.synchronization) {
      enabled.push_back(VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT);
    }
    if (options.gpu_assisted) enabled.push_back(VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT);
    validation.enabledValidationFeatureCount = static_cast<uint32_t>(enabled.size());
    validation.pEnabledValidationFeatures = enabled.data();
    info.pNext = &validation;
  }
  VkInstance instance = VK_NULL_HANDLE;
  check_vulkan(vkCreateInstance(&info, nullptr, &instance), "vkCreateInstance");
  return instance;
}

std::vector<VkPhysicalDevice> enumerate(VkInstance instance) {
  uint32_t n = 0;
  if (vkEnumeratePhysicalDevices(instance, &n, nullptr) != VK_SUCCESS) return {};
  std::vector<VkPhysicalDevice> devices(n);
  if (vkEnumeratePhysicalDevices(instance, &n, devices.data()) != VK_SUCCESS) return {};
  return devices;
}

VKAPI_ATTR VkBool32 VKAPI_CALL on_debug_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                                VkDebugUtilsMessageTypeFlagsEXT,
                                                const VkDebugUtilsMessengerCallbackDataEXT* data,
                                                void* user) {
  (*static_cast<std::function<void(const std::string&)>*>(user))(data->pMessage);
  return VK_FALSE;
}

// Of a usable device.
VulkanCapabilities read_capabilities(VkInstance instance, VkPhysicalDevice physical,
                                     const VulkanOptions& options) {
  const std::vector<std::string> present = device_extensions(physical);
#ifdef VESPER_COOPERATIVE_MATRIX
  constexpr bool kHasMatrixShaders = true;
#else
  constexpr bool kHasMatrixShaders = false;
#endif
  const bool offers_matrix =
      options.cooperative_matrices && contains(present, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  const bool has_matrix = offers_matrix && kHasMatrixShaders;
  const bool has_conditional = options.conditional_rendering &&
                               contains(present, VK_EXT_CONDITIONAL_RENDERING_EXTENSION_NAME);
  DeviceFeatures offered;
  if (has_matrix) offered.chain(offered.matrix);
  if (has_conditional) offered.chain(offered.conditional);
  vkGetPhysicalDeviceFeatures2(physical, &offered.core);

  auto v11 = vulkan_struct<VkPhysicalDeviceVulkan11Properties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
  auto v13 = vulkan_struct<VkPhysicalDeviceVulkan13Properties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES);
  auto properties2 =
      vulkan_struct<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  auto v12 = vulkan_struct<VkPhysicalDeviceVulkan12Properties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
  properties2.pNext = &v11;
  v11.pNext = &v12;
  v12.pNext = &v13;
  auto processors = vulkan_struct<VkPhysicalDeviceShaderSMBuiltinsPropertiesNV>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
  if (contains(present, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) v13.pNext = &processors;
  vkGetPhysicalDeviceProperties2(physical, &properties2);

  VulkanCapabilities c;
  const VkPhysicalDeviceProperties& properties = properties2.properties;
  const VkPhysicalDeviceLimits& limits = properties.limits;
  c.name = properties.deviceName;
  c.is_hardware_gpu = is_gpu(properties.deviceType);
  c.tuning = vulkan_tuning(c.is_hardware_gpu);
  // matmul_int8 shares blocks of 32 columns between eight lanes.
  if (c.is_hardware_gpu && !v13.integerDotProduct4x8BitPackedMixedSignednessAccelerated) {
    c.tuning.int8_rows = 0;
  }
  if (v11.subgroupSize < 8) c.tuning.int8_rows = 0;
  c.memory_bytes = largest_device_heap(physical);
  c.subgroup_size = v11.subgroupSize;
  c.fixed_subgroups = offered.v13.subgroupSizeControl && offered.v13.computeFullSubgroups &&
                      (v13.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
  c.max_workgroup_threads =
      std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]);
  if (c.fixed_subgroups) {
    c.max_workgroup_threads = std::min<uint32_t>(
        c.max_workgroup_threads, v13.maxComputeWorkgroupSubgroups * c.subgroup_size);
  }
  std::copy(std::begin(limits.maxComputeWorkGroupCount), std::end(limits.maxComputeWorkGroupCount),
            c.max_groups);
  c.n_processors = processors.shaderSMCount;
  const bool has_memory_model =
      offered.v12.vulkanMemoryModel && offered.v12.vulkanMemoryModelDeviceScope;
  c.starts_in_order = (v12.driverID == VK_DRIVER_ID_NVIDIA_PROPRIETARY && has_memory_model) ||
                      v12.driverID == VK_DRIVER_ID_MESA_LLVMPIPE;
  c.shared_bytes = limits.maxComputeSharedMemorySize;
  c.max_allocation_bytes = std::min<uint64_t>(v11.maxMemoryAllocationSize, v13.maxBufferSize);
  c.memory_budget = contains(present, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  c.pipeline_statistics = contains(present, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  c.lacks_matrix_shaders = offers_matrix && !kHasMatrixShaders;

  if (has_matrix && offered.matrix.cooperativeMatrix && offered.v12.shaderFloat16 &&
      has_memory_model && c.fixed_subgroups) {
    const auto query = reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR>(
        vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    uint32_t n = 0;
    check_vulkan(query(physical, &n, nullptr), "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    std::vector<VkCooperativeMatrixPropertiesKHR> shapes(
        n, vulkan_struct<VkCooperativeMatrixPropertiesKHR>(
               VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR));
    check_vulkan(query(physical, &n, shapes.data()),
                 "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    for (const VkCooperativeMatrixPropertiesKHR& s : shapes) {
      // Kernel tiles are multiples of squares of 8 or 16; take the largest.
      if (s.AType == VK_COMPONENT_TYPE_FLOAT16_KHR && s.BType == VK_COMPONENT_TYPE_FLOAT16_KHR &&
          s.CType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
          s.ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR && s.scope == VK_SCOPE_SUBGROUP_KHR &&
          s.MSize == s.NSize && s.MSize <= 16 && 16 % s.MSize == 0 && 16 % s.KSize == 0 &&
          s.MSize * s.KSize > c.matrix_m * c.matrix_k) {
        c.matrix_m = s.MSize;
        c.matrix_n = s.NSize;
        c.matrix_k = s.KSize;
      }
    }
  }
  c.conditional_rendering = has_conditional && offered.conditional.conditionalRendering;
  VkQueueFamilyProperties family{};
  compute_family(physical, &family);
  if (family.timestampValidBits != 0) c.timestamp_ns = limits.timestampPeriod;
  return c;
}

}  // namespace

void check_vulkan(VkResult result, const char* call) {
  if (result == VK_SUCCESS) return;
  throw Error(ErrorKind::kDevice, std::string("Vulkan: ") + call + ": " + result_name(result) +
                                      " (VkResult " + std::to_string(result) + ")");
}

int compute_family(VkPhysicalDevice physical, VkQueueFamilyProperties* properties) {
  uint32_t n = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, nullptr);
  std::vector<VkQueueFamilyProperties> families(n);
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, families.data());
  int best = -1;
  for (uint32_t i = 0; i < n; ++i) {
    if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
    const bool compute_only = !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT);
    if (best < 0 || compute_only) {
      best = static_cast<int>(i);
      *properties = families[i];
      if (compute_only) break;
    }
  }
  return best;
}

VulkanInstance::VulkanInstance(const VulkanOptions& options)
    : on_message_(options.on_message), instance_(create_instance(options)) {
  try {
    if (on_message_) listen();
    physical_ = enumerate(instance_);
    for (VkPhysicalDevice physical : physical_) {
      VkPhysicalDeviceProperties properties;
      vkGetPhysicalDeviceProperties(physical, &properties);
      VulkanListing listing;
      listing.name = properties.deviceName;
      listing.type = type_name(properties.deviceType);
      listing.is_hardware_gpu = is_gpu(properties.deviceType);
      listing.memory_bytes = largest_device_heap(physical);
      listing.unusable = missing(physical);
      try {
        if (listing.unusable.empty()) {
          listing.capabilities =
              std::make_shared<VulkanCapabilities>(read_capabilities(instance_, physical, options));
        }
      } catch (const Error& error) {
        listing.unusable = error.what();
      }
      devices_.push_back(std::move(listing));
    }
  } catch (...) {
    destroy();
    throw;
  }
}

VulkanInstance::~VulkanInstance() { destroy(); }

void VulkanInstance::listen() {
  auto info = vulkan_struct<VkDebugUtilsMessengerCreateInfoEXT>(
      VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
  info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                         VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                     VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  info.pfnUserCallback = on_debug_message;
  info.pUserData = &on_message_;
  const auto create = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
      vkGetInstanceProcAddr(instance_, "vkCreateDebugUtilsMessengerEXT"));
  check_vulkan(create(instance_, &info, nullptr, &messenger_), "vkCreateDebugUtilsMessengerEXT");
}

void VulkanInstance::destroy() {
  if (messenger_) {
    const auto destroy = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
        vkGetInstanceProcAddr(instance_, "vkDestroyDebugUtilsMessengerEXT"));
    destroy(instance_, messenger_, nullptr);
  }
  // A process can load NVIDIA's driver (580.159) about 30 times: static TLS of its libraries stays
  // in use when they are unloaded. The first instance that has a GPU stays, and with it the driver.
  static std::atomic<VkInstance> kept = VK_NULL_HANDLE;
  VkInstance none = VK_NULL_HANDLE;
  const bool has_gpu = std::ranges::any_of(devices_, &VulkanListing::is_hardware_gpu);
  if (has_gpu && !messenger_ && kept.compare_exchange_strong(none, instance_)) return;
  vkDestroyInstance(instance_, nullptr);
}

std::vector<VulkanListing> list_vulkan_devices() {
  const std::unique_ptr<VulkanInstance> instance = vulkan_instance({});
  return instance ? instance->devices() : std::vector<VulkanListing>();
}

std::unique_ptr<VulkanInstance> vulkan_instance(const VulkanOptions& options) {
  vulkan_tuning(true);  // an error in VESPER_TUNING is not an unusable device
  try {
    return std::make_unique<VulkanInstance>(options);
  } catch (const Error&) {
    if (options.on_message) throw;  // the layers may be missing
    return nullptr;
  }
}

}  // namespace vesper

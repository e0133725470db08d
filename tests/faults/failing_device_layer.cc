// A Vulkan layer that makes the n-th call fail, as a GPU that is lost or out of memory does.
//
// FAILING_DEVICE=N:WHAT   the N-th of the calls below, from 1. WHAT is "lost": this call and all
//                         later ones that can fail so return VK_ERROR_DEVICE_LOST; or "memory":
//                         only this one returns VK_ERROR_OUT_OF_DEVICE_MEMORY.
// FAILING_DEVICE_CALLS=FILE   the names of the calls so far, one a line
//
// The loader finds it with VK_INSTANCE_LAYERS and the manifest beside it, and hands each call of
// the program to it. A program has one device at a time.
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace {

PFN_vkGetInstanceProcAddr next_instance_function = nullptr;
PFN_vkGetDeviceProcAddr next_device_function = nullptr;
VkInstance the_instance = VK_NULL_HANDLE;
VkDevice the_device = VK_NULL_HANDLE;
std::atomic<long> n_calls{0};
std::atomic<bool> is_lost{false};

// Counts a call, and returns the error that it fails with.
VkResult failure(const char* name) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const long n = ++n_calls;
  static const char* file = std::getenv("FAILING_DEVICE_CALLS");
  if (file) {
    if (std::FILE* calls = std::fopen(file, "a")) {
      std::fprintf(calls, "%s\n", name);
      std::fclose(calls);
    }
  }
  static const char* fault = std::getenv("FAILING_DEVICE");
  if (!fault || is_lost) return is_lost ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
  char* what = nullptr;
  if (n != std::strtol(fault, &what, 10)) return VK_SUCCESS;
  if (std::strcmp(what, ":memory") == 0) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  is_lost = true;
  return VK_ERROR_DEVICE_LOST;
}

PFN_vkVoidFunction next(const char* name) { return next_device_function(the_device, name); }

// The work that was submitted must end before its buffers are destroyed: the driver is sound.
VkResult lost_after_work() {
  reinterpret_cast<PFN_vkDeviceWaitIdle>(next("vkDeviceWaitIdle"))(the_device);
  return VK_ERROR_DEVICE_LOST;
}

template <class Function>
struct Call;
template <class... Arguments>
struct Call<VkResult(VKAPI_PTR*)(Arguments...)> {
  // One function for each name.
  template <const char* const& kName>
  static VKAPI_ATTR VkResult VKAPI_CALL run(Arguments... arguments) {
    const VkResult result = failure(kName);
    if (result == VK_ERROR_DEVICE_LOST) return lost_after_work();
    if (result != VK_SUCCESS) return result;
    return reinterpret_cast<VkResult(VKAPI_PTR*)(Arguments...)>(next(kName))(arguments...);
  }
};

#define CALLS(CALL)                                                                              \
  CALL(vkAllocateMemory)                                                                         \
  CALL(vkMapMemory)                                                                              \
  CALL(vkBindBufferMemory)                                                                       \
  CALL(vkCreateBuffer)                                                                           \
  CALL(vkCreateShaderModule)                                                                     \
  CALL(vkCreatePipelineLayout)                                                                   \
  CALL(vkCreatePipelineCache) CALL(vkCreateComputePipelines) CALL(vkGetPipelineCacheData)        \
      CALL(vkCreateCommandPool) CALL(vkAllocateCommandBuffers) CALL(vkBeginCommandBuffer)        \
          CALL(vkEndCommandBuffer) CALL(vkCreateFence) CALL(vkResetFences) CALL(vkWaitForFences) \
              CALL(vkGetFenceStatus) CALL(vkCreateQueryPool) CALL(vkGetQueryPoolResults)         \
                  CALL(vkQueueSubmit2) CALL(vkQueueWaitIdle)

#define NAME(function) constexpr const char* k_##function = #function;
CALLS(NAME)
#undef NAME

template <class Info>
Info* link_info(const void* chain, VkStructureType type) {
  for (auto* info = static_cast<const Info*>(chain); info;
       info = static_cast<const Info*>(info->pNext)) {
    if (info->sType == type && info->function == VK_LAYER_LINK_INFO) return const_cast<Info*>(info);
  }
  return nullptr;
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* allocator,
                                               VkInstance* instance) {
  auto* link = link_info<VkLayerInstanceCreateInfo>(info->pNext,
                                                    VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  next_instance_function = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create =
      reinterpret_cast<PFN_vkCreateInstance>(next_instance_function(nullptr, "vkCreateInstance"));
  const VkResult result = create(info, allocator, instance);
  the_instance = *instance;
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                             const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator,
                                             VkDevice* device) {
  auto* link =
      link_info<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  next_device_function = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const VkResult fault = failure("vkCreateDevice");
  if (fault != VK_SUCCESS) return fault;
  const auto create =
      reinterpret_cast<PFN_vkCreateDevice>(next_instance_function(the_instance, "vkCreateDevice"));
  const VkResult result = create(physical, info, allocator, device);
  the_device = *device;
  return result;
}

PFN_vkVoidFunction own_device_function(const char* name) {
#define CASE(function)                                                                     \
  if (std::strcmp(name, #function) == 0) {                                                 \
    return reinterpret_cast<PFN_vkVoidFunction>(&Call<PFN_##function>::run<k_##function>); \
  }
  CALLS(CASE)
#undef CASE
  return nullptr;
}

}  // namespace

extern "C" {

VK_LAYER_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
failing_device_device_function(VkDevice device, const char* name) {
  if (const PFN_vkVoidFunction own = own_device_function(name)) return own;
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) {
    return reinterpret_cast<PFN_vkVoidFunction>(failing_device_device_function);
  }
  return next_device_function(device, name);
}

VK_LAYER_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
failing_device_instance_function(VkInstance instance, const char* name) {
  const auto is = [&](const char* own) { return std::strcmp(name, own) == 0; };
  if (is("vkCreateInstance")) return reinterpret_cast<PFN_vkVoidFunction>(create_instance);
  if (is("vkCreateDevice")) return reinterpret_cast<PFN_vkVoidFunction>(create_device);
  if (is("vkGetInstanceProcAddr")) {
    return reinterpret_cast<PFN_vkVoidFunction>(failing_device_instance_function);
  }
  if (is("vkGetDeviceProcAddr")) {
    return reinterpret_cast<PFN_vkVoidFunction>(failing_device_device_function);
  }
  if (const PFN_vkVoidFunction own = own_device_function(name)) return own;
  return next_instance_function ? next_instance_function(instance, name) : nullptr;
}

VK_LAYER_EXPORT VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* version) {
  version->loaderLayerInterfaceVersion = 2;
  version->pfnGetInstanceProcAddr = failing_device_instance_function;
  version->pfnGetDeviceProcAddr = failing_device_device_function;
  version->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}

}  // extern "C"

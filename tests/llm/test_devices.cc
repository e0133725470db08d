#include "tests/llm/test_devices.h"

#include <gtest/gtest.h>

#include <iostream>

#include "llm/devices/open_device.h"
#include "tests/llm/table/stage_check_device.h"

#ifdef VESPER_HAS_VULKAN
#include "llm/vulkan/vulkan_device.h"
#endif

namespace vesper {

#ifdef VESPER_HAS_VULKAN
// Newer layers report settings that they change themselves.
bool is_about_program(const std::string& message) {
  return message.find("Internal Warning: ") == std::string::npos;
}

VulkanOptions validated_options() {
  VulkanOptions options;
  options.synchronization = options.gpu_assisted = true;
  options.on_message = [](const std::string& message) {
    if (is_about_program(message)) {
      ADD_FAILURE() << message;
    } else {
      std::cout << "[   LAYERS ] " << message << "\n";
    }
  };
  return options;
}
#endif

std::vector<std::string> plain_test_devices() {
#ifdef VESPER_HAS_VULKAN
  return {"cpu", "vulkan"};
#else
  return {"cpu"};
#endif
}

std::unique_ptr<Device> open_test_device(std::string_view name, uint64_t seed) {
  constexpr std::string_view kChecked = "checked ";
  if (name.starts_with(kChecked)) {
    StageCheckOptions options;
    options.seed = seed;
    options.zeroed = {"stop ids",  // no id
                                   // rows of padding
                      "log-mel windows", "first convolution", "magnitudes", "conv1", "conv2",
                      "conv3", "state of voice activity"};
    std::unique_ptr<Device> device = open_device(name.substr(kChecked.size()), {.n_threads = 2});
    // Of group_experts, which orders them by atomic additions.
    if (device->info().is_hardware_gpu) options.varying = {"decoder slots by expert"};
    return std::make_unique<StageCheckDevice>(std::move(device), std::move(options));
  }
#ifdef VESPER_HAS_VULKAN
  if (name == "validated vulkan") {
    const uint32_t index = choose_vulkan_device("vulkan", list_vulkan_devices());
    return open_vulkan_device(index, validated_options());
  }
#endif
  return open_device(name, {});
}

}  // namespace vesper

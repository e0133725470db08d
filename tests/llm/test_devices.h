// Devices by name for tests of whole models: those of open_device, and two that look closer.
//
// "checked cpu", "checked vulkan": a StageCheckDevice on them; `seed` is that of its order.
// "validated vulkan": a Vulkan device under all checks of the validation layers. A message fails
// the test. tests/llm/vulkan/validation_layers_test.cc shows which mistakes they report.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/table/device.h"

namespace vesper {

struct VulkanOptions;
// With all checks of the validation layers. A message fails the running test.
VulkanOptions validated_options();
// Whether a message of the layers is about the program, not about themselves.
bool is_about_program(const std::string& message);

// "cpu", and "vulkan" if this build has it.
std::vector<std::string> plain_test_devices();

std::unique_ptr<Device> open_test_device(std::string_view name, uint64_t seed = 1);

}  // namespace vesper

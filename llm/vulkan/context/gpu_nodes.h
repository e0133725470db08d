// Detects GPUs without loading a driver.
//
// The Vulkan loader maps every installed driver, including a software one with its compiler, and
// keeps them mapped. A program that then runs on the CPU should not pay for that. Used by
// open_vulkan_gpu for `auto`; named devices are not checked.
#pragma once

#include <filesystem>

namespace vesper {

// Whether there is a device node that the Vulkan driver of a GPU opens. Also true if this is
// unknown: on systems other than Linux, and if the folder is unreadable.
bool may_have_gpu(const std::filesystem::path& device_folder = "/dev");

}  // namespace vesper

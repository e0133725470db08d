// Whether this system shows a GPU at all, told without a driver.
//
// Asking the Vulkan loader maps every driver installed, a software one with its compiler among
// them, and they stay mapped: memory and time that a program which then runs on the CPU need not
// spend. Asked by open_vulkan_gpu, for `auto`; a device that the user names is asked for as it is.
#pragma once

#include <filesystem>

namespace vesper {

// Whether a device node is there that some Vulkan driver of a GPU opens; true where it cannot be
// told: on other systems than Linux, and where the folder cannot be read.
bool may_have_gpu(const std::filesystem::path& device_folder = "/dev");

}  // namespace vesper

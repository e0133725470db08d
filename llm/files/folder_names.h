// The names in a folder.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace vesper {

// Without "." and "..", sorted. On failure sets `error` and returns those that were read, like
// std::filesystem::directory_iterator, which ends the program if memory runs out (libstdc++ 12 and
// 14: an exception in a noexcept function).
std::vector<std::string> names_in_folder(const std::filesystem::path& folder,
                                         std::error_code& error);

}  // namespace vesper

// A text file, whole.
#pragma once

#include <filesystem>
#include <string>

namespace vesper {

// A whole file. Throws Error(kInput) with the name and the reason.
std::string read_text_file(const std::filesystem::path& path);

// Throws Error(kInput) for a folder, which a stream would open as an empty file.
void require_no_folder(const std::filesystem::path& path);

}  // namespace vesper

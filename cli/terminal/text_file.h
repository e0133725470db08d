// A whole text file in memory: a template, a conversation, a text to be foreseen.
#pragma once

#include <filesystem>
#include <string>

namespace vesper {

// Throws Error(kInput) naming the file and why it cannot be read.
std::string read_text_file(const std::filesystem::path& path);

// Standard input to its end; empty where the caller has closed it. Throws Error(kInput) if it
// cannot be read.
std::string read_standard_input();

// Throws Error(kInput) if it is a folder: a stream opens that, and finds it empty.
void require_no_folder(const std::filesystem::path& path);

}  // namespace vesper

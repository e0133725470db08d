// Output of results: standard output, folders, NumPy files. session/atomic_file.h writes files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace vesper {

// Writes and flushes the text to standard output. Throws OutputPipeClosed (cli/terminal/program.h)
// if the pipe is closed, otherwise Error(kOutput).
void write_to_stdout(std::string_view text);

// The header of a NumPy file (format 1.0) of f32 [n_rows, n_columns] in C order.
std::string npy_header(uint64_t n_rows, uint64_t n_columns);

// Creates the folder and its parents if missing. Throws Error(kOutput).
void make_folder(const std::filesystem::path& folder);

}  // namespace vesper

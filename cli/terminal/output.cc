#include "cli/terminal/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "cli/terminal/program.h"
#include "error/error.h"
#include "session/atomic_file.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_output_error(const std::string& where, int error_number) {
  throw Error(ErrorKind::kOutput, where + ": " + std::strerror(error_number));
}

}  // namespace

void write_to_stdout(std::string_view text) {
  const int error_number = write_all(STDOUT_FILENO, text);
  if (error_number == EPIPE) throw OutputPipeClosed{};
  if (error_number != 0) throw_output_error("standard output", error_number);
}

std::string npy_header(uint64_t n_rows, uint64_t n_columns) {
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                     std::to_string(n_rows) + ", " + std::to_string(n_columns) + "), }";
  // Padded to a multiple of 64 bytes; the last byte ends the line.
  constexpr size_t kFixed = 10, kAlignment = 64;
  while ((kFixed + text.size() + 1) % kAlignment != 0) text += ' ';
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 255);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && !fs::is_directory(folder)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw Error(ErrorKind::kOutput, folder.string() + ": " + error.message());
  if (access(folder.c_str(), W_OK | X_OK) != 0) throw_output_error(folder.string(), errno);
}

}  // namespace vesper

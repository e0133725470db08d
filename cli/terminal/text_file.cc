#include "cli/terminal/text_file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "error/error.h"

namespace vesper {

std::string read_text_file(const std::filesystem::path& path) {
  require_no_folder(path);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.is_open() && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || text.fail()) {
    const std::string why = errno != 0 ? std::generic_category().message(errno) : "cannot be read";
    throw Error(ErrorKind::kInput, path.string() + ": " + why);
  }
  return text.str();
}

std::string read_standard_input() {
  std::string text;
  std::array<char, 1 << 16> part{};
  size_t n = 0;
  while ((n = std::fread(part.data(), 1, part.size(), stdin)) > 0) text.append(part.data(), n);
  if (std::ferror(stdin) && errno != EBADF) {
    throw Error(ErrorKind::kInput, std::string("standard input: ") + std::strerror(errno));
  }
  return text;
}

void require_no_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return;
  throw Error(ErrorKind::kInput, path.string() + ": expected a file, found a folder");
}

}  // namespace vesper

#include "llm/files/text_file.h"

#include <cerrno>
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

void require_no_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return;
  throw Error(ErrorKind::kInput, path.string() + ": expected a file, found a folder");
}

}  // namespace vesper

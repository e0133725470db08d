#include "cli/terminal/text_input.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "error/error.h"

namespace vesper {
namespace {

// A longer line is not text, but a file of another kind.
constexpr size_t kMaxLineBytes = size_t{64} << 20;

// A stream would open a folder as an empty file.
void require_no_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return;
  throw Error(ErrorKind::kInput, path.string() + ": expected a file, found a folder");
}

}  // namespace

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

TextLines::TextLines(const std::string& path, char separator)
    : name_(path == "-" ? "stdin" : path), separator_(separator) {
  if (path == "-") {
    if (isatty(STDIN_FILENO)) {
      throw Error(ErrorKind::kInput, "standard input is a terminal; expected a file or a pipe");
    }
    file_.reset(stdin);
    return;
  }
  require_no_folder(path);
  file_.reset(std::fopen(path.c_str(), "rbe"));
  if (!file_) throw Error(ErrorKind::kInput, path + ": " + std::strerror(errno));
}

bool TextLines::next(std::string& line) {
  line.clear();
  ++n_lines_;
  int c = 0;
  while ((c = getc_unlocked(file_.get())) != EOF && c != separator_) {
    if (line.size() >= kMaxLineBytes) {
      throw Error(ErrorKind::kInput, origin() + ": expected at most " +
                                         std::to_string(kMaxLineBytes) +
                                         " bytes a line, found more");
    }
    line += static_cast<char>(c);
  }
  if (c == EOF && std::ferror(file_.get())) {
    throw Error(ErrorKind::kInput, name_ + ": " + std::strerror(errno));
  }
  if (c == EOF && line.empty()) return false;
  if (separator_ == '\n' && line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace vesper

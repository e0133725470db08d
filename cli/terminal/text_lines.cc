#include "cli/terminal/text_lines.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "error/error.h"

namespace vesper {
namespace {

// A longer line is no text, but a file of another kind.
constexpr size_t kMaxLineBytes = size_t{64} << 20;

}  // namespace

TextLines::TextLines(const std::string& path) : name_(path == "-" ? "stdin" : path) {
  if (path == "-") {
    if (isatty(STDIN_FILENO)) {
      throw Error(ErrorKind::kInput,
                  "standard input is a terminal; expected texts as arguments, by --input or in a "
                  "pipe");
    }
    file_.reset(stdin);
    return;
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw Error(ErrorKind::kInput, path + ": is a folder, expected a file with a text a line");
  }
  file_.reset(std::fopen(path.c_str(), "rbe"));
  if (!file_) throw Error(ErrorKind::kInput, path + ": " + std::strerror(errno));
}

bool TextLines::next(std::string& line) {
  line.clear();
  ++n_lines_;
  int c = 0;
  while ((c = getc_unlocked(file_.get())) != EOF && c != '\n') {
    if (line.size() >= kMaxLineBytes) {
      throw Error(ErrorKind::kInput, place() + ": expected at most " +
                                         std::to_string(kMaxLineBytes) +
                                         " bytes a line, found more");
    }
    line += static_cast<char>(c);
  }
  if (c == EOF && std::ferror(file_.get())) {
    throw Error(ErrorKind::kInput, name_ + ": " + std::strerror(errno));
  }
  if (c == EOF && line.empty()) return false;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace vesper

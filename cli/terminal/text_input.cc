#include "cli/terminal/text_input.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "error/error.h"
#include "llm/files/text_file.h"

namespace vesper {
namespace {

// A longer line is not text, but a file of another kind.
constexpr size_t kMaxLineBytes = size_t{64} << 20;

}  // namespace

void read_grammar(const std::string& file, GrammarOptions& grammar) {
  if (!file.empty()) grammar.text = read_text_file(file);
  try {
    compile_grammar(grammar);
  } catch (const Error& error) {
    if (file.empty()) throw;
    throw Error(error.kind(), file + ": " + error.what());
  }
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

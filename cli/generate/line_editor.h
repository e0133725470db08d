// Reads lines from a terminal, with editing and a history: libedit. UTF-8 in every locale.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace vesper {

class LineEditor {
 public:
  // For standard input and output, which must be a terminal.
  explicit LineEditor(const char* program);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The next line without its end; absent at the end of input (Ctrl-D). Ctrl-C drops the line: it
  // is empty, and was_cancelled() is true.
  std::optional<std::string> read(const std::string& prompt);
  bool was_cancelled() const;
  void remember(const std::string& line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vesper

// Text from standard input, whole, and from files, line by line.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include "llm/grammar/grammar_options.h"

namespace vesper {

// Standard input to its end; empty if it is closed. Throws Error(kInput) on failure.
std::string read_standard_input();

// Reads the text of a grammar, unless `file` is empty, and checks the grammar. Throws Error(kInput)
// if the file cannot be read, and Error(kUsage) with the file's name and the place in it.
void read_grammar(const std::string& file, GrammarOptions& grammar);

// The lines of a file or of standard input.
class TextLines {
 public:
  // `path` may be "-": standard input. Lines end with `separator`. Throws Error(kInput) if it
  // cannot be opened, or standard input is a terminal.
  explicit TextLines(const std::string& path, char separator = '\n');

  // The next line without its end ("\n", "\r\n" or the separator); false at the end. Throws
  // Error(kInput) for read errors and lines of more than 64 MiB.
  bool next(std::string& line);

  // The file name for messages; "stdin" for standard input.
  const std::string& name() const { return name_; }
  // The position of the last line: "prompts.jsonl:3".
  std::string origin() const { return name_ + ":" + std::to_string(n_lines_); }
  // Of the last line, from 1.
  size_t line_number() const { return n_lines_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const {
      if (file != stdin) std::fclose(file);
    }
  };

  std::string name_;
  char separator_;
  size_t n_lines_ = 0;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

}  // namespace vesper

// The texts that `embed` is given: arguments, or lines of files and of standard input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/embed_arguments.h"

namespace vesper {

class EmbedInput {
 public:
  // Opens nothing yet.
  explicit EmbedInput(const EmbedArguments& arguments);

  // The next text. Returns false at the end. Throws Error(kInput) with file and line for what
  // cannot be read: also a line that is no JSON, or has no text under the key, where that is asked
  // for.
  bool next(std::string& text);

  // Where the last text was, for messages: "notes.txt, line 3", "text 2".
  std::string place() const;

 private:
  bool next_line(std::string& line);
  void open_next();
  [[noreturn]] void fail(const std::string& message) const;
  std::string member_of(const std::string& line) const;

  struct CloseFile {
    void operator()(std::FILE* file) const {
      if (file != stdin) std::fclose(file);
    }
  };

  const EmbedArguments& arguments_;
  std::vector<std::string> files_;
  size_t n_texts_ = 0, n_opened_ = 0, line_ = 0;
  std::string name_;  // of the open file, for messages
  bool is_json_ = false;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

// Token ids in decimal with spaces or commas between, brackets around them allowed. Throws
// Error(kInput) for anything else.
std::vector<int32_t> parse_token_ids(std::string_view text);

}  // namespace vesper

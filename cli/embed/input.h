// The texts that `embed` reads: from arguments, or from the lines of files and standard input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/embed/options.h"
#include "cli/terminal/option_values.h"
#include "cli/terminal/text_input.h"

namespace vesper {

class EmbedInput {
 public:
  // Opens no file.
  explicit EmbedInput(const EmbedArguments& arguments);

  // Reads the next text; false at the end. Throws Error(kInput) with the file and line if the input
  // cannot be read, or if a line has no text under the key.
  bool next(std::string& text);

  // Where the last text came from, for messages: "notes.txt:3", "text 2".
  std::string origin() const;

 private:
  bool next_line(std::string& line);
  [[noreturn]] void fail(const std::string& message) const;
  std::string member_of(const std::string& line) const;

  const EmbedArguments& arguments_;
  std::vector<std::string> files_;
  size_t n_texts_ = 0, n_opened_ = 0;
  bool is_json_ = false;            // format of the open file
  std::optional<TextLines> lines_;  // of the open file
};

}  // namespace vesper

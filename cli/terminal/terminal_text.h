// Text for terminals: width, tables, and escaping of foreign text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

// Columns of valid UTF-8 on a terminal: two for wide characters (Chinese, Japanese, Korean, emoji),
// none for combining ones.
int text_width(std::string_view text);

// Text that cannot move the cursor, change colors or the writing direction: control characters
// become \n, \x1b or \u202e, bytes that are not UTF-8 \xff. With `max_characters` the rest
// becomes an ellipsis.
std::string escaped(std::string_view text, size_t max_characters = ~size_t{0});

// The same for text of several lines: keeps \n and \t.
std::string escaped_lines(std::string_view text);

// Rows of cells in columns, two spaces apart; columns in `right` (bit i) are right-aligned.
class TextTable {
 public:
  explicit TextTable(uint64_t right = 0) : right_(right) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Each line begins with `indent`.
  std::string text(std::string_view indent = "") const;

 private:
  uint64_t right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace vesper

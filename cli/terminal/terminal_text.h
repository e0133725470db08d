// Text made fit for a terminal: its width, numbers, tables, and foreign text made harmless.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

// Columns that valid UTF-8 takes on a terminal: two for each wide character (Chinese, Japanese,
// Korean, emoji), none for one that combines with the one before it.
int text_width(std::string_view text);

// Text that cannot move the cursor, change colours or turn the direction of writing: control
// characters and the like are written as \n, \x1b or \u202e, bytes that are not UTF-8 as \xff. With
// `max_characters` the rest is cut off and an ellipsis put for it.
std::string escaped(std::string_view text, size_t max_characters = ~size_t{0});

// "1.2 GB", "34.0 MB", "980 bytes": powers of 1000.
std::string bytes_text(uint64_t bytes);
// "134,515,008"
std::string grouped(uint64_t number);

// Rows of cells in columns, two spaces apart; the columns named in `right` (bit i) are aligned to
// the right.
class TextTable {
 public:
  explicit TextTable(uint64_t right = 0) : right_(right) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Each line after `indent`.
  std::string text(std::string_view indent = "") const;

 private:
  uint64_t right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace vesper

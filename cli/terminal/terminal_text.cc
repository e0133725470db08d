#include "cli/terminal/terminal_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <optional>

#include "error/number_text.h"

namespace vesper {
namespace {

// Removes the first character of `text` and returns its code point, or nothing for a byte that is
// not UTF-8.
std::optional<uint32_t> next_code_point(std::string_view& text) {
  utf8proc_int32_t code_point = 0;
  const utf8proc_ssize_t n =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  text.remove_prefix(n > 0 ? static_cast<size_t>(n) : 1);
  if (n <= 0) return std::nullopt;
  return static_cast<uint32_t>(code_point);
}

// Control characters, and characters that affect the text around them: writing direction, invisible
// ones.
bool is_hazardous(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
         (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

}  // namespace

int text_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const std::optional<uint32_t> c = next_code_point(text);
    width += c ? utf8proc_charwidth(static_cast<utf8proc_int32_t>(*c)) : 1;
  }
  return width;
}

std::string escaped(std::string_view text, size_t max_characters) {
  std::string out;
  for (size_t n = 0; !text.empty(); ++n) {
    if (n == max_characters) return out + "\xe2\x80\xa6";
    const std::string_view before = text;
    const std::optional<uint32_t> c = next_code_point(text);
    if (c == uint32_t{'\n'}) {
      out += "\\n";
    } else if (c == uint32_t{'\t'}) {
      out += "\\t";
    } else if (c && !is_hazardous(*c)) {
      out += before.substr(0, before.size() - text.size());
    } else {
      const uint32_t shown = c.value_or(static_cast<unsigned char>(before[0]));
      out += formatted(shown < 0x100 ? "\\x%02x" : "\\u%04x", shown);
    }
  }
  return out;
}

std::string escaped_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find_first_of("\n\t");
    out += escaped(text.substr(0, end));
    if (end == std::string_view::npos) break;
    out += text[end];
    text.remove_prefix(end + 1);
  }
  return out;
}

std::string TextTable::text(std::string_view indent) const {
  std::vector<int> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], text_width(row[i]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(static_cast<size_t>(widths[i] - text_width(row[i])), ' ');
      const bool is_right = (right_ >> i & 1) != 0;
      line += (i > 0 ? "  " : "") + (is_right ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace vesper

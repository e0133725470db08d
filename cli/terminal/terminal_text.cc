#include "cli/terminal/terminal_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "llm/tokenizer/utf8_stream.h"

namespace vesper {
namespace {

std::string formatted(const char* format, unsigned value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// The code point of a whole, valid UTF-8 sequence.
uint32_t code_point(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first;
  uint32_t value = first & (0xffu >> (sequence.size() + 1));
  for (size_t i = 1; i < sequence.size(); ++i) {
    value = value << 6 | (static_cast<unsigned char>(sequence[i]) & 0x3fu);
  }
  return value;
}

// Controls, and characters that act on the text around them: writing direction, invisible ones.
bool is_hazardous(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
         (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

// Columns that UTF-8 takes, if each character takes one.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

std::string escaped(std::string_view text, size_t max_characters) {
  std::string out;
  size_t n = 0;
  while (!text.empty()) {
    if (n++ == max_characters) return out + "\xe2\x80\xa6";
    const auto first = static_cast<unsigned char>(text[0]);
    size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    length = std::min(length, text.size());
    const std::string_view sequence = text.substr(0, length);
    if (valid_utf8_prefix(sequence) != length) {
      out += formatted("\\x%02x", first);
      text.remove_prefix(1);
      continue;
    }
    const uint32_t c = code_point(sequence);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (!is_hazardous(c)) {
      out += sequence;
    } else {
      out += formatted(c < 0x100 ? "\\x%02x" : "\\u%04x", c);
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string bytes_text(uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " bytes";
  static constexpr std::array<const char*, 6> kUnits = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, kUnits[unit]);
  return text.data();
}

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string TextTable::text(std::string_view indent) const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width_of(row[i]), ' ');
      const bool is_right = (right_ >> i & 1) != 0;
      line += (i > 0 ? "  " : "") + (is_right ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace vesper

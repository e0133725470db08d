#include "llm/grammar/rules/utf8_ranges.h"

#include <algorithm>

namespace vesper {

namespace {

// The bytes of a code point, of which UTF-8 has `length`.
std::array<uint8_t, 4> utf8_bytes(uint32_t code_point, uint32_t length) {
  std::array<uint8_t, 4> bytes{};
  for (uint32_t i = length; i-- > 1; code_point >>= 6) bytes[i] = uint8_t(0x80 | (code_point & 63));
  constexpr std::array<uint8_t, 5> lead{0, 0, 0xC0, 0xE0, 0xF0};
  bytes[0] = uint8_t(lead[length] | code_point);
  return bytes;
}

// first..last have the same length. Splits until all bytes after the first that differs take all of
// their values, so that the ranges of single bytes are independent.
void append_of_length(uint32_t first, uint32_t last, uint32_t length,
                      std::vector<Utf8Range>& ranges) {
  for (uint32_t i = 1; i < length; ++i) {
    const uint32_t low = (1u << (6 * i)) - 1;  // the last i bytes
    if ((first & ~low) == (last & ~low)) continue;
    if (first & low) {
      append_of_length(first, first | low, length, ranges);
      append_of_length((first | low) + 1, last, length, ranges);
      return;
    }
    if ((last & low) != low) {
      append_of_length(first, (last & ~low) - 1, length, ranges);
      append_of_length(last & ~low, last, length, ranges);
      return;
    }
  }
  const auto from = utf8_bytes(first, length), to = utf8_bytes(last, length);
  Utf8Range range{length, {}};
  for (uint32_t i = 0; i < length; ++i) range.bytes[i] = {from[i], to[i]};
  ranges.push_back(range);
}

}  // namespace

void append_utf8_ranges(uint32_t first, uint32_t last, std::vector<Utf8Range>& ranges) {
  struct Part {
    uint32_t first, last, length;
  };
  constexpr Part kParts[] = {{0, 0x7F, 1},
                             {0x80, 0x7FF, 2},
                             {0x800, 0xD7FF, 3},
                             {0xE000, 0xFFFF, 3},
                             {0x10000, 0x10FFFF, 4}};
  for (const auto& part : kParts)
    if (first <= part.last && last >= part.first)
      append_of_length(std::max(first, part.first), std::min(last, part.last), part.length, ranges);
}

}  // namespace vesper

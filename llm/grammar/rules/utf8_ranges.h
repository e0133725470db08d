// Ranges of code points as ranges of UTF-8 bytes. Called by RuleBuilder.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace vesper {

// Texts of `length` bytes, each byte within its range.
struct Utf8Range {
  struct Bytes {
    uint8_t first, last;
  };
  uint32_t length;
  std::array<Bytes, 4> bytes;
};

// Appends ranges that together match exactly the code points first..last, surrogates left out.
// last <= 0x10FFFF.
void append_utf8_ranges(uint32_t first, uint32_t last, std::vector<Utf8Range>& ranges);

}  // namespace vesper

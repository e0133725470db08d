// The tokens <0x00> to <0xFF>, which stand for single bytes in vocabularies of characters.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vesper {

// By byte; empty unless all 256 are there.
inline std::vector<int32_t> byte_tokens_of(
    const std::unordered_map<std::string_view, int32_t>& index) {
  std::vector<int32_t> tokens;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::array<char, 8> spelling{};
    std::snprintf(spelling.data(), spelling.size(), "<0x%02X>", byte);
    const auto found = index.find(spelling.data());
    if (found == index.end()) return {};
    tokens.push_back(found->second);
  }
  return tokens;
}

// The byte that such a spelling stands for; absent for any other.
inline std::optional<char> byte_of_token(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') {
    return std::nullopt;
  }
  unsigned value = 0;
  for (const char c : spelling.substr(3, 2)) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && !(c >= 'A' && c <= 'F')) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(is_digit ? c - '0' : c - 'A' + 10);
  }
  return static_cast<char>(value);
}

}  // namespace vesper

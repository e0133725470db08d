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

// By byte; empty unless all 256 are there. `find` gives the token of a spelling, or -1.
template <class Find>
std::vector<int32_t> find_byte_tokens(const Find& find) {
  std::vector<int32_t> tokens;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::array<char, 8> spelling{};
    std::snprintf(spelling.data(), spelling.size(), "<0x%02X>", byte);
    const int32_t id = find(std::string_view(spelling.data()));
    if (id < 0) return {};
    tokens.push_back(id);
  }
  return tokens;
}
inline std::vector<int32_t> byte_tokens_of(
    const std::unordered_map<std::string_view, int32_t>& index) {
  return find_byte_tokens([&](std::string_view spelling) {
    const auto found = index.find(spelling);
    return found == index.end() ? -1 : found->second;
  });
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

#include "llm/tokenizer/unicode/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace vesper {
namespace {

utf8proc_category_t category_of(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool lies_between(utf8proc_category_t category, utf8proc_category_t first,
                  utf8proc_category_t last) {
  return category >= first && category <= last;
}

// Start of the last character of a text.
size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && text.size() - at < 4 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

struct Range {
  char32_t first, last;
};

// Non-spacing marks of version 9, and those whose category has changed since.
constexpr std::array<Range, 22> kMarksOfUnicode9 = {
    {{0x8d4, 0x8e1},     {0x1885, 0x1886},   {0x1dfb, 0x1dfb},   {0xa8c5, 0xa8c5},
     {0xa9bd, 0xa9bd},   {0x1123e, 0x1123e}, {0x11438, 0x1143f}, {0x11442, 0x11444},
     {0x11446, 0x11446}, {0x11c30, 0x11c36}, {0x11c38, 0x11c3d}, {0x11c3f, 0x11c3f},
     {0x11c92, 0x11ca7}, {0x11caa, 0x11cb0}, {0x11cb2, 0x11cb3}, {0x11cb5, 0x11cb6},
     {0x1e000, 0x1e006}, {0x1e008, 0x1e018}, {0x1e01b, 0x1e021}, {0x1e023, 0x1e024},
     {0x1e026, 0x1e02a}, {0x1e944, 0x1e94a}}};

// Marks of versions 10 to 16.
constexpr std::array<Range, 79> kMarksSinceUnicode10 = {
    {{0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},
     {0xafa, 0xaff},     {0xb55, 0xb55},     {0xc04, 0xc04},     {0xc3c, 0xc3c},
     {0xcf3, 0xcf3},     {0xd00, 0xd00},     {0xd3b, 0xd3c},     {0xd81, 0xd81},
     {0xeba, 0xeba},     {0xece, 0xece},     {0x1715, 0x1715},   {0x180f, 0x180f},
     {0x1abf, 0x1ace},   {0x1cf7, 0x1cf7},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},
     {0xa8ff, 0xa8ff},   {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac},
     {0x10efc, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070},
     {0x11073, 0x11074}, {0x110c2, 0x110c2}, {0x11145, 0x11146}, {0x111c9, 0x111c9},
     {0x111ce, 0x111cf}, {0x11241, 0x11241}, {0x1133b, 0x1133b}, {0x113b8, 0x113e2},
     {0x1145e, 0x1145e}, {0x1182c, 0x1183a}, {0x11930, 0x11935}, {0x11937, 0x11938},
     {0x1193b, 0x1193e}, {0x11940, 0x11940}, {0x11942, 0x11943}, {0x119d1, 0x119d7},
     {0x119da, 0x119e0}, {0x119e4, 0x119e4}, {0x11a01, 0x11a0a}, {0x11a33, 0x11a39},
     {0x11a3b, 0x11a3e}, {0x11a47, 0x11a47}, {0x11a51, 0x11a5b}, {0x11a8a, 0x11a99},
     {0x11d31, 0x11d36}, {0x11d3a, 0x11d3a}, {0x11d3c, 0x11d3d}, {0x11d3f, 0x11d45},
     {0x11d47, 0x11d47}, {0x11d8a, 0x11d8e}, {0x11d90, 0x11d91}, {0x11d93, 0x11d97},
     {0x11ef3, 0x11ef6}, {0x11f00, 0x11f03}, {0x11f34, 0x11f42}, {0x11f5a, 0x11f5a},
     {0x13440, 0x13440}, {0x13447, 0x13455}, {0x1611e, 0x1612f}, {0x16f4f, 0x16f4f},
     {0x16f7f, 0x16f87}, {0x16fe4, 0x16fe4}, {0x16ff0, 0x16ff1}, {0x1cf00, 0x1cf2d},
     {0x1cf30, 0x1cf46}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
     {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef}}};

// Punctuation of versions 9 to 16.
constexpr std::array<Range, 38> kPunctuationSinceUnicode9 = {
    {{0x61d, 0x61d},     {0x9fd, 0x9fd},     {0xa76, 0xa76},     {0xc77, 0xc77},
     {0xc84, 0xc84},     {0x1b4e, 0x1b4f},   {0x1b7d, 0x1b7e},   {0x2e43, 0x2e4f},
     {0x2e52, 0x2e5d},   {0x10d6e, 0x10d6e}, {0x10ead, 0x10ead}, {0x10f55, 0x10f59},
     {0x10f86, 0x10f89}, {0x113d4, 0x113d5}, {0x113d7, 0x113d8}, {0x1144b, 0x1144f},
     {0x1145a, 0x1145b}, {0x1145d, 0x1145d}, {0x11660, 0x1166c}, {0x116b9, 0x116b9},
     {0x1183b, 0x1183b}, {0x11944, 0x11946}, {0x119e2, 0x119e2}, {0x11a3f, 0x11a46},
     {0x11a9a, 0x11a9c}, {0x11a9e, 0x11aa2}, {0x11b00, 0x11b09}, {0x11c41, 0x11c45},
     {0x11c70, 0x11c71}, {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f}, {0x11fff, 0x11fff},
     {0x12ff1, 0x12ff2}, {0x16d6d, 0x16d6f}, {0x16e97, 0x16e9a}, {0x16fe2, 0x16fe2},
     {0x1e5ff, 0x1e5ff}, {0x1e95e, 0x1e95f}}};

template <size_t n>
bool contains(const std::array<Range, n>& ranges, char32_t c) {
  const auto found =
      std::lower_bound(ranges.begin(), ranges.end(), c,
                       [](const Range& range, char32_t x) { return range.last < x; });
  return found != ranges.end() && found->first <= c;
}

}  // namespace

char32_t next_character(std::string_view text, size_t& at) {
  utf8proc_int32_t c = 0;
  const utf8proc_ssize_t n =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                       static_cast<utf8proc_ssize_t>(text.size() - at), &c);
  if (n <= 0) {
    ++at;
    return 0xfffd;
  }
  at += static_cast<size_t>(n);
  return static_cast<char32_t>(c);
}

void append_character(char32_t character, std::string& text) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const utf8proc_ssize_t n =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(n));
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || lies_between(category_of(c), UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool is_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return lies_between(category_of(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_letter(char32_t c) {
  return lies_between(category_of(c), UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

bool is_mark(char32_t c) {
  return lies_between(category_of(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool is_punctuation(char32_t c) {
  return lies_between(category_of(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_decimal_digit(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_ND; }

char32_t upper_case(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

char32_t lower_case(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

bool is_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return lies_between(category_of(c), UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO);
}

bool is_printable(char32_t c) {
  if (c < 0x7f) return c >= 0x20;
  const utf8proc_category_t category = category_of(c);
  return category != UTF8PROC_CATEGORY_CN &&
         !lies_between(category, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_CO);
}

bool is_word_character(char32_t c) {
  if (is_letter(c) || is_mark(c)) return true;
  const utf8proc_category_t category = category_of(c);
  if (category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
      category == UTF8PROC_CATEGORY_PC) {
    return true;
  }
  // Join_Control, and circled and squared letters, which are alphabetic.
  return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) ||
         (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
         (c >= 0x1f170 && c <= 0x1f189);
}

size_t white_space_at_start(std::string_view text) {
  size_t n = 0;
  for (size_t at = 0; at < text.size() && is_white_space(next_character(text, at));) n = at;
  return n;
}

size_t white_space_at_end(std::string_view text) {
  size_t n = text.size();
  while (n > 0) {
    const size_t begin = last_character(text.substr(0, n));
    size_t at = begin;
    if (!is_white_space(next_character(text, at))) break;
    n = begin;
  }
  return text.size() - n;
}

bool starts_with_word(std::string_view text) {
  size_t at = 0;
  return !text.empty() && is_word_character(next_character(text, at));
}

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  size_t at = last_character(text);
  return is_word_character(next_character(text, at));
}

bool is_mark_of_unicode_9(char32_t c) { return contains(kMarksOfUnicode9, c); }
bool is_mark_since_unicode_10(char32_t c) { return contains(kMarksSinceUnicode10, c); }
bool is_punctuation_since_unicode_9(char32_t c) { return contains(kPunctuationSinceUnicode9, c); }

}  // namespace vesper

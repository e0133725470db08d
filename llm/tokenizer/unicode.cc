#include "llm/tokenizer/unicode.h"

#include <utf8proc.h>

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

// Where the last character of a text begins.
size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && text.size() - at < 4 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
  return at;
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
  // Join_Control, and the letters in circles and squares, which count as alphabetic.
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

}  // namespace vesper

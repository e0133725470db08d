// Unicode character classes for tokenizers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vesper {

// The character at `at` of valid UTF-8; moves `at` after it. An invalid byte gives U+FFFD.
char32_t next_character(std::string_view text, size_t& at);
void append_character(char32_t character, std::string& text);

bool is_white_space(char32_t c);     // the property White_Space
bool is_number(char32_t c);          // general category N
bool is_letter(char32_t c);          // general category L
bool is_mark(char32_t c);            // general category M
bool is_punctuation(char32_t c);     // general category P
bool is_decimal_digit(char32_t c);   // general category Nd
bool is_control(char32_t c);         // category C, except unassigned ones, tab and line ends
bool is_printable(char32_t c);       // as in Python's repr()
bool is_word_character(char32_t c);  // \w: letters, marks, decimal digits, connectors, joiners

// For one character, without conditions or expansion.
char32_t upper_case(char32_t c);
char32_t lower_case(char32_t c);

// Bytes of white space at both ends.
size_t white_space_at_start(std::string_view text);
size_t white_space_at_end(std::string_view text);
// Whether the first or last character is_word_character().
bool starts_with_word(std::string_view text);
bool ends_with_word(std::string_view text);

// Characters newer than the Unicode tables of Hugging Face's tokenizers 0.23 (version 8 for BERT's
// categories, 9 for normal forms) are neither marks nor punctuation there. Models were trained with
// those ids, so these functions treat newer characters the same. The lists are the differences
// between tokenizers 0.23.3 and Unicode 14, and the additions of 15 and 16.
bool is_mark_of_unicode_9(char32_t c);
bool is_mark_since_unicode_10(char32_t c);
bool is_punctuation_since_unicode_9(char32_t c);

}  // namespace vesper

// The byte-level spelling of tokens that GPT-2 introduced: each byte of a token is written as one
// printable character, so that any bytes can stand in a JSON or text file. Printable ASCII and
// Latin-1 (all but the soft hyphen) stand for themselves, the other 68 bytes for U+0100 onwards in
// order: a space is U+0120.
#pragma once

#include <string>
#include <string_view>

namespace vesper {

// The bytes that a byte-level spelling stands for. Characters outside the alphabet (special tokens
// may have them) stay as they are.
std::string bytes_of_byte_level(std::string_view spelling);

// The byte-level spelling (UTF-8) of any bytes.
std::string byte_level_of_bytes(std::string_view bytes);

}  // namespace vesper

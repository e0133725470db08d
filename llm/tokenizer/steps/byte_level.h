// The byte-level spelling of tokens introduced by GPT-2: each byte of a token is one printable
// character, so that JSON and text files can contain any bytes. Printable ASCII and Latin-1 (except
// the soft hyphen) are unchanged, the other 68 bytes are U+0100 onwards in order: a space is
// U+0120.
#pragma once

#include <string>
#include <string_view>

namespace vesper {

// The bytes of a byte-level spelling. Characters outside the alphabet (in special tokens) are
// unchanged.
std::string bytes_of_byte_level(std::string_view spelling);

// The byte-level spelling (UTF-8) of any bytes.
std::string byte_level_of_bytes(std::string_view bytes);

}  // namespace vesper

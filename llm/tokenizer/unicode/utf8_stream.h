// Joins the bytes of tokens to valid UTF-8: a character may be split over several tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vesper {

// Bytes of complete, valid UTF-8 characters at the start of `text`.
size_t valid_utf8_prefix(std::string_view text);

// Length of the character at `at` by its first byte; at least 1, at most the rest of the text.
inline size_t character_bytes(std::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  const size_t n = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return n < text.size() - at ? n : text.size() - at;
}

// Takes bytes in any pieces and returns complete characters. Invalid bytes become U+FFFD, one for
// each longest prefix of a character (Unicode standard, section 3.9, as in web browsers and
// Python's "replace").
class Utf8Stream {
 public:
  // The characters completed by these bytes. At most 3 bytes are held back.
  std::string push(std::string_view bytes);
  // Ends the text: U+FFFD for an incomplete character, otherwise empty. Then ready for new text.
  std::string finish();

 private:
  void take(char byte, std::string& out);

  std::string held_;            // the bytes of an unfinished character
  int n_missing_ = 0;           // missing bytes
  uint8_t lowest_next_ = 0x80;  // range of its next byte
  uint8_t highest_next_ = 0xbf;
};

// `bytes` with invalid UTF-8 replaced as above.
std::string valid_utf8(std::string_view bytes);

}  // namespace vesper

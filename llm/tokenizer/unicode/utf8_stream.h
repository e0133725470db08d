// Text from tokens, as it comes: a character may be spread over several tokens, and what is written
// out must be valid UTF-8 at every moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vesper {

// How many bytes at the start of `text` are whole, valid UTF-8 characters.
size_t valid_utf8_prefix(std::string_view text);

// How many bytes the character at `at` has, by its first byte; at least 1, at most what is left.
inline size_t character_bytes(std::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  const size_t n = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return n < text.size() - at ? n : text.size() - at;
}

// Takes bytes in any portions and gives back whole characters. Bytes that are no UTF-8 become
// U+FFFD, one for each longest run that could have begun a character (the rule of the Unicode
// standard, section 3.9, which web browsers and Python's "replace" follow).
class Utf8Stream {
 public:
  // The characters that these bytes complete. At most 3 bytes are held back.
  std::string push(std::string_view bytes);
  // The end: U+FFFD if a character is unfinished, else empty. Ready for new text afterwards.
  std::string finish();

 private:
  void take(char byte, std::string& out);

  std::string held_;            // the bytes of an unfinished character
  int n_missing_ = 0;           // bytes that it lacks
  uint8_t lowest_next_ = 0x80;  // the range that its next byte must lie in
  uint8_t highest_next_ = 0xbf;
};

// `bytes` with everything that is not UTF-8 replaced as above.
std::string valid_utf8(std::string_view bytes);

}  // namespace vesper

#include "llm/tokenizer/steps/byte_level.h"

#include <array>
#include <cstdint>

namespace vesper {
namespace {

// All characters of the alphabet are below U+0144, so at most two bytes of UTF-8.
struct Alphabet {
  std::array<uint16_t, 256> character_of_byte{};
  std::array<int16_t, 0x144> byte_of_character{};  // -1: not in the alphabet

  Alphabet() {
    byte_of_character.fill(-1);
    uint16_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool stands_for_itself =
          (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
      const auto character = stands_for_itself ? static_cast<uint16_t>(byte) : next++;
      character_of_byte[static_cast<size_t>(byte)] = character;
      byte_of_character[character] = static_cast<int16_t>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet table;
  return table;
}

}  // namespace

std::string bytes_of_byte_level(std::string_view spelling) {
  const Alphabet& table = alphabet();
  std::string bytes;
  bytes.reserve(spelling.size());
  for (size_t i = 0; i < spelling.size(); ++i) {
    const auto first = static_cast<uint8_t>(spelling[i]);
    uint32_t character = first;
    size_t length = 1;
    if (first >= 0xc2 && first <= 0xdf && i + 1 < spelling.size() &&
        (static_cast<uint8_t>(spelling[i + 1]) & 0xc0) == 0x80) {
      character = (first & 0x1fu) << 6 | (static_cast<uint8_t>(spelling[i + 1]) & 0x3fu);
      length = 2;
    }
    const bool is_character = length == 2 || first < 0x80;
    if (is_character && character < table.byte_of_character.size() &&
        table.byte_of_character[character] >= 0) {
      bytes.push_back(static_cast<char>(table.byte_of_character[character]));
    } else {
      bytes.append(spelling.substr(i, length));
    }
    i += length - 1;
  }
  return bytes;
}

std::string byte_level_of_bytes(std::string_view bytes) {
  const Alphabet& table = alphabet();
  std::string spelling;
  for (const char byte : bytes) {
    const uint16_t character = table.character_of_byte[static_cast<uint8_t>(byte)];
    if (character < 0x80) {
      spelling.push_back(static_cast<char>(character));
    } else {
      spelling.push_back(static_cast<char>(0xc0 | character >> 6));
      spelling.push_back(static_cast<char>(0x80 | (character & 0x3f)));
    }
  }
  return spelling;
}

}  // namespace vesper

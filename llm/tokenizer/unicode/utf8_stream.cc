#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// The number of bytes after a character's first byte, and the range of the next one, which excludes
// overlong forms, surrogates and values above U+10FFFF (Unicode standard, table 3-7).
struct Sequence {
  int n_following;  // -1: no character begins with this byte
  uint8_t lowest = 0x80;
  uint8_t highest = 0xbf;
};

Sequence sequence_of(uint8_t first) {
  if (first < 0x80) return {0};
  if (first < 0xc2) return {-1};
  if (first < 0xe0) return {1};
  if (first == 0xe0) return {2, 0xa0, 0xbf};
  if (first == 0xed) return {2, 0x80, 0x9f};
  if (first < 0xf0) return {2};
  if (first == 0xf0) return {3, 0x90, 0xbf};
  if (first < 0xf4) return {3};
  if (first == 0xf4) return {3, 0x80, 0x8f};
  return {-1};
}

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    Sequence sequence = sequence_of(static_cast<uint8_t>(text[i]));
    if (sequence.n_following < 0) return i;
    const auto length = static_cast<size_t>(sequence.n_following) + 1;
    if (length > text.size() - i) return i;
    for (size_t j = 1; j < length; ++j) {
      const auto byte = static_cast<uint8_t>(text[i + j]);
      if (byte < sequence.lowest || byte > sequence.highest) return i;
      sequence.lowest = 0x80;
      sequence.highest = 0xbf;
    }
    i += length;
  }
  return i;
}

void Utf8Stream::take(char byte, std::string& out) {
  const auto value = static_cast<uint8_t>(byte);
  if (n_missing_ > 0) {
    if (value >= lowest_next_ && value <= highest_next_) {
      held_.push_back(byte);
      lowest_next_ = 0x80;
      highest_next_ = 0xbf;
      if (--n_missing_ == 0) {
        out += held_;
        held_.clear();
      }
      return;
    }
    out += finish();
  }
  const Sequence sequence = sequence_of(value);
  if (sequence.n_following < 0) {
    out += kReplacement;
  } else if (sequence.n_following == 0) {
    out.push_back(byte);
  } else {
    held_.assign(1, byte);
    n_missing_ = sequence.n_following;
    lowest_next_ = sequence.lowest;
    highest_next_ = sequence.highest;
  }
}

std::string Utf8Stream::push(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char byte : bytes) take(byte, out);
  return out;
}

std::string Utf8Stream::finish() {
  const bool is_unfinished = n_missing_ > 0;
  held_.clear();
  n_missing_ = 0;
  return is_unfinished ? std::string(kReplacement) : std::string();
}

std::string valid_utf8(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text + stream.finish();
}

}  // namespace vesper

#include "decoder/transcript/text_lines.h"

#include <algorithm>
#include <cmath>

#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

// Keeps the products below within 64 bits.
constexpr double kLatestTime = 1e6;

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

}  // namespace

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
  }
  out += text;
  return out;
}

std::string trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\n\r\f\v";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

std::string plain_text(std::string_view raw) {
  std::string text = valid_utf8(raw);
  // Unicode line separators that break lines in some readers: U+0085, U+2028, U+2029.
  for (std::string_view separator : {"\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"}) {
    text = replace_all(text, separator, " ");
  }
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

std::string one_line(std::string_view raw) {
  const std::string text = plain_text(raw);
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

int64_t in_units(double seconds, double units_per_second) {
  if (!(seconds > 0)) return 0;
  return std::llrint(std::min(seconds, kLatestTime) * units_per_second);
}

TimeSpan milliseconds(double start_s, double end_s) {
  const int64_t start = in_units(start_s, 1000);
  return {start, std::max(start, in_units(end_s, 1000))};
}

std::string speaker_label(const Segment& segment) {
  if (segment.channel > 0) {
    const std::string number = "channel " + std::to_string(segment.channel);
    return "[" + (segment.speaker.empty() ? number : one_line(segment.speaker)) + "] ";
  }
  return segment.speaker.empty() ? "" : "(speaker " + one_line(segment.speaker) + ") ";
}

}  // namespace vesper

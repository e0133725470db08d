// Text and times of a transcript as its writers put them down: text that is valid UTF-8 and cannot
// break a line, times in whole units.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "decoder/transcript/transcript.h"

namespace vesper {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
// Valid UTF-8 without control characters and line separators, which become spaces.
std::string plain_text(std::string_view raw);
// The same without spaces at its ends.
std::string one_line(std::string_view raw);

// Rounded to the nearest unit, halves to even, as Python's round(). Not a number and times before
// the start become 0; times beyond 11 days, which are a mistake, those.
int64_t in_units(double seconds, double units_per_second);

// Milliseconds, start <= end.
struct TimeSpan {
  int64_t start, end;
};
TimeSpan milliseconds(double start_s, double end_s);

// What tells in text who speaks, with a space behind it: "[left] ", "[channel 3] ", or as in
// whisper.cpp "(speaker 0) "; empty if a segment does not say.
std::string speaker_label(const Segment& segment);

}  // namespace vesper

// Text and times of a transcript for the writers: valid UTF-8 in one line, and times as integers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "decoder/transcript/transcript.h"

namespace vesper {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
// Without outer blanks and line breaks.
std::string trimmed(std::string_view text);
// Valid UTF-8; control characters and line separators become spaces.
std::string plain_text(std::string_view raw);
// The same without outer spaces.
std::string one_line(std::string_view raw);

// Rounded to the nearest integer, half to even, like Python's round(). NaN and negative times
// become 0; times above 11 days, which are errors, become 11 days.
int64_t in_units(double seconds, double units_per_second);

// Milliseconds, start <= end.
struct TimeSpan {
  int64_t start, end;
};
TimeSpan milliseconds(double start_s, double end_s);

// The speaker in text, with a trailing space: "[left] ", "[channel 3] ", or as in whisper.cpp
// "(speaker 0) "; empty if the segment has none.
std::string speaker_label(const Segment& segment);

}  // namespace vesper

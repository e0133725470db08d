// Cuts segments into shorter ones by the times of their words. Called by
// decoder/windows/transcriber; what it knows of words the subtitles
// (decoder/transcript/subtitles.h) need too.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "decoder/transcript/transcript.h"

namespace vesper {

// Code points of a UTF-8 text; bytes that are none of UTF-8 count as one each.
size_t count_characters(std::string_view text);

// The segment's words; without word times its text cut before spaces, its duration shared out by
// characters.
std::vector<Word> words_of(const Segment& segment);

// Segments of at most `max_length` characters (spaces at their ends not counted), above 0, that say
// the same. They end between `parts`, the segment's words or parts of them, one of which stands
// alone if it is longer. `end_of_text`: text tokens are below it. Ids are left to the caller.
std::vector<Segment> cut_segment(const Segment& segment, std::vector<Word> parts,
                                 uint32_t max_length, int32_t end_of_text);

}  // namespace vesper

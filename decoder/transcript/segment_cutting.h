// Cuts segments into shorter ones at word boundaries. Called by decoder/windows/window_decoder and
// decoder/transcript/subtitles.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "decoder/transcript/transcript.h"

namespace vesper {

// Code points of a UTF-8 text; each invalid byte counts as one.
size_t count_characters(std::string_view text);

// The segment's words. Without word times: its text cut before spaces, the duration shared in
// proportion to characters.
std::vector<Word> words_of(const Segment& segment);

// The text of a segment in segments of at most `max_length` > 0 characters (without outer spaces).
// They end between `parts`, the segment's words or parts of words; a longer part is a segment of
// its own. Text tokens are below `end_of_text`. The caller sets the ids.
std::vector<Segment> cut_segment(const Segment& segment, std::vector<Word> parts,
                                 uint32_t max_length, int32_t end_of_text);

}  // namespace vesper

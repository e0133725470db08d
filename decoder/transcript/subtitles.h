// From segments to the cues of subtitles: which words stand together, on how many lines, from when
// to when. The layout is that of openai-whisper's SubtitlesWriter, but that no line ends
// within what is written as one word; times are made fit for players.
//
// In come segments, one by one; out go cues as soon as they are complete, none of no length and
// none before the end of the one before it. Used by decoder/writers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "decoder/transcript/transcript.h"

namespace vesper {

// Names and meaning as in openai-whisper.
struct SubtitleLayout {
  std::optional<uint32_t> max_line_width = std::nullopt;  // characters; a longer word stands alone
  std::optional<uint32_t> max_line_count =
      std::nullopt;  // with a width: cues go on from segment to segment
  std::optional<uint32_t> max_words_per_line = std::nullopt;  // without a count of lines: in a cue
  bool highlight_words = false;  // a cue for each word, in which it is underlined
  // Whether cues are made of words rather than of segments.
  bool of_words() const {
    return max_line_width || max_line_count || max_words_per_line || highlight_words;
  }
};

struct Cue {
  int64_t start_ms = 0, end_ms = 0;
  std::vector<std::string> words;     // with the spaces and line breaks between them
  std::optional<size_t> highlighted;  // of the words
};

class CueMaker {
 public:
  CueMaker(const SubtitleLayout& layout, std::function<void(const Cue&)> on_cue)
      : layout_(layout), on_cue_(std::move(on_cue)) {}

  void push(const Segment& segment);
  void finish();

 private:
  // A word of the cue in the making.
  struct Placed {
    int64_t start_ms, end_ms;
    std::string text;
  };

  bool keeps_segments() const { return !layout_.max_line_count || !layout_.max_line_width; }
  void place(const Word& word);
  void close_cue();
  // Emits a cue after those that wait, none of them before the end of the last that was.
  void settle(Cue cue);
  // Emits the cues that wait, and `last` if there is one, from `start_ms` to `end_ms` in equal
  // parts.
  void share(int64_t start_ms, int64_t end_ms);

  SubtitleLayout layout_;
  std::function<void(const Cue&)> on_cue_;
  std::vector<Placed> cue_;
  size_t line_length_ = 0;  // characters
  uint32_t n_lines_ = 1;
  std::optional<double> last_start_s_;  // of a word
  std::vector<Cue> waiting_;            // cues without a length, which all start at one time
  int64_t settled_ms_ = 0;              // the end of the last cue
};

}  // namespace vesper

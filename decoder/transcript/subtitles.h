// Lays out segments as subtitle cues: words, lines and times.
//
// In: segments, one by one. Out: cues, as soon as they are complete, in order, without overlap and
// never of length 0. The layout is openai-whisper's SubtitlesWriter, except that no line ends
// within a written word. Used by decoder/transcript/writers.
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
  std::optional<uint32_t> max_line_width = std::nullopt;  // characters; a longer word has its own
                                                          // line
  std::optional<uint32_t> max_line_count =
      std::nullopt;  // with max_line_width: cues may span segments
  std::optional<uint32_t> max_words_per_line = std::nullopt;  // without max_line_count: per cue
  bool highlight_words = false;  // one cue per word, with that word underlined
  // Whether cues are made of words instead of segments.
  bool of_words() const {
    return max_line_width || max_line_count || max_words_per_line || highlight_words;
  }
};

struct Cue {
  int64_t start_ms = 0, end_ms = 0;
  std::vector<std::string> words;     // with the spaces and line breaks between them
  std::optional<size_t> highlighted;  // index of the underlined word
};

class CueMaker {
 public:
  CueMaker(const SubtitleLayout& layout, std::function<void(const Cue&)> on_cue)
      : layout_(layout), on_cue_(std::move(on_cue)) {}

  void push(const Segment& segment);
  void finish();

 private:
  // A word of the unfinished cue.
  struct Placed {
    int64_t start_ms, end_ms;
    std::string text;
  };

  bool keeps_segments() const { return !layout_.max_line_count || !layout_.max_line_width; }
  void add_word(const Word& word);
  void close_cue();
  // Emits a cue after the waiting ones, not before the end of the last one.
  void emit_after_waiting(Cue cue);
  // Emits the waiting cues in equal parts of [start_ms, end_ms).
  void emit_waiting(int64_t start_ms, int64_t end_ms);

  SubtitleLayout layout_;
  std::function<void(const Cue&)> on_cue_;
  std::vector<Placed> cue_;
  size_t line_length_ = 0;  // in characters
  uint32_t n_lines_ = 1;
  std::optional<double> last_start_s_;  // of a word
  std::vector<Cue> waiting_;            // cues of length 0 with the same start
  int64_t emitted_ms_ = 0;              // end of the last cue
};

}  // namespace vesper

// Captions of an unfinished stream: which words of the latest guess are final.
//
// The current window is decoded repeatedly as it grows. A word is final when two successive guesses
// have it after the same words (LocalAgreement-2 of Liu et al. 2020, "Low-Latency
// Sequence-to-Sequence Speech Recognition and Translation by Partial Hypothesis Selection"). Plain
// data, no model: decoder/windows/live/live_transcriber decodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/transcript/transcript.h"
#include "decoder/windows/window_policy.h"

namespace vesper {

struct CaptionWord {
  std::string text;               // decoded tokens, with leading space
  size_t end_token = 0;           // tokens of the guess up to the end of this word
  double start_s = 0, end_s = 0;  // from the start of the stream
  bool opens_segment = false;     // after a timestamp
  double probability = 1;         // of the least probable token of its stem
  // The word without final marks (full stop, comma, ...): bytes of the text, and tokens as in
  // end_token. 0 bytes for a word of marks only.
  size_t stem_bytes = 0, stem_end_token = 0;

  std::string_view stem() const { return std::string_view(text).substr(0, stem_bytes); }
};

// Parameters for reading a guess.
struct CaptionTokens {
  int32_t end_of_text = 0;      // text tokens are below it
  int32_t timestamp_begin = 0;  // first timestamp token, 20 ms apart
  bool by_character = false;    // the language has no spaces between words
  size_t n_given = 0;           // forced tokens of the guess; they end with a word
  std::function<std::string_view(int32_t id)> bytes_of;
};

// The words of a guess at a window that begins at `offset_s` and has audio up to `end_s`. The time
// of a segment (an open one lasts to the end of the window) is shared by its words by length.
std::vector<CaptionWord> caption_words(std::span<const int32_t> guess, const CaptionTokens& tokens,
                                       double offset_s, double end_s);

class LocalAgreement {
 public:
  // The policy decides which words are doubtful, and how much later they are final.
  explicit LocalAgreement(const WindowPolicy& policy = {}) : policy_(policy) {}

  // `words` are those of the latest guess after the final ones; its audio ends at `end_s`. Returns
  // the words that are final now: those that the previous guess has too and whose end its audio
  // covers (a model guesses what comes next), with a delay if the model doubts them; and those that
  // ended more than `patience_s` ago. Of the last word only the stem is final, because the next
  // word decides its marks.
  std::vector<CaptionWord> agree(std::span<const CaptionWord> words, double end_s,
                                 double patience_s);

  // Starts another window.
  void forget() { previous_.clear(); }

 private:
  WindowPolicy policy_;
  std::vector<CaptionWord> previous_;  // words of the previous guess that are not final
  double previous_end_s_ = 0;          // end of its audio
};

// Removes the marks of the last word; the whole word if it has only marks.
void leave_marks_open(std::vector<CaptionWord>& words);

// The shown part of a window's text.
struct ShownPart {
  // For each shown word the index of its word in `whole`, ascending; words without one are after
  // its end.
  std::vector<size_t> stands_for;
  size_t n_whole = 0;  // words of `whole` that have been shown in some form
};
// Aligns the shown words with the text of the whole window by the smallest edit distance at which
// one of the two ends inside the other. Among equal alignments, takes the one that ends at the time
// of the last shown word.
ShownPart find_shown(std::span<const CaptionWord> shown, std::span<const CaptionWord> whole);

// Final tokens of a window that begin the next one, `advance_frames` later: their timestamps count
// from the next window, at least 0, and one timestamp comes first.
std::vector<int32_t> tokens_of_next_window(std::span<const int32_t> tokens, uint64_t advance_frames,
                                           int32_t timestamp_begin);

// Events of a stream. `received_s` is the audio received before the event.
struct LiveEvents {
  // Words that do not change any more, in order.
  std::function<void(std::span<const CaptionWord> words, double received_s)> on_final;
  // Words that may follow them; replaces the previous ones. May be empty.
  std::function<void(std::span<const CaptionWord> words, double received_s)> on_partial;
  // A segment with only final words.
  std::function<void(const Segment& segment)> on_segment;
};

}  // namespace vesper

// Captions of a stream whose end has not come yet: which words of the latest guess are final.
//
// The window in hand is decoded again and again as it grows. A word is final when two guesses that
// follow each other have it after the same words (LocalAgreement-2 of Liu et al. 2020, "Low-Latency
// Sequence-to-Sequence Speech Recognition and Translation by Partial Hypothesis Selection"). Plain
// data, no model: decoder/live_transcriber decodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/transcript.h"

namespace vesper {

struct CaptionWord {
  std::string text;      // as the tokens spell it, with its leading space
  size_t end_token = 0;  // of the guess: this word and those before it are the tokens up to there
  double start_s = 0, end_s = 0;  // from the start of the stream
  bool opens_segment = false;     // a timestamp stands before it
};

// What is needed to read a guess.
struct CaptionTokens {
  int32_t end_of_text = 0;      // text tokens are below it
  int32_t timestamp_begin = 0;  // timestamps are from it on, 20 ms apart
  bool by_character = false;    // the language has no spaces between words
  std::function<std::string_view(int32_t id)> bytes_of;
};

// The words of a guess at a window that begins at `offset_s` and has sound up to `end_s`. A
// segment's time, up to the window's end if it is open, is dealt out to its words by their length.
std::vector<CaptionWord> caption_words(std::span<const int32_t> guess, const CaptionTokens& tokens,
                                       double offset_s, double end_s);

class LocalAgreement {
 public:
  // `words`: those of the latest guess after the final ones, with sound up to `end_s`. Returns how
  // many of them are final now: as far as the guess before has the same, and those that ended more
  // than `patience_s` ago, which more sound does not change any more.
  size_t agree(std::span<const CaptionWord> words, double end_s, double patience_s);

  // Another window begins.
  void forget() { previous_.clear(); }

 private:
  std::vector<std::string> previous_;  // of the guess before, what is not final
};

// What is said of a stream. `received_s`: how much of it had come by then.
struct LiveEvents {
  // Words that stay as they are, in order.
  std::function<void(std::span<const CaptionWord> words, double received_s)> on_final;
  // What may follow them, replacing what was said before; empty if nothing.
  std::function<void(std::span<const CaptionWord> words, double received_s)> on_partial;
  // A segment of which all words are final.
  std::function<void(const Segment& segment)> on_segment;
};

}  // namespace vesper

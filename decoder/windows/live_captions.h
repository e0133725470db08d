// Captions of a stream whose end has not come yet: which words of the latest guess are final.
//
// The window in hand is decoded again and again as it grows. A word is final when two guesses that
// follow each other have it after the same words (LocalAgreement-2 of Liu et al. 2020, "Low-Latency
// Sequence-to-Sequence Speech Recognition and Translation by Partial Hypothesis Selection"). Plain
// data, no model: decoder/windows/live_transcriber decodes.
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
  std::string text;      // as the tokens spell it, with its leading space
  size_t end_token = 0;  // of the guess: this word and those before it are the tokens up to there
  double start_s = 0, end_s = 0;  // from the start of the stream
  bool opens_segment = false;     // a timestamp stands before it
  double probability = 1;         // of the least likely token of its stem
  // The word without the marks behind it (full stop, comma, ...): bytes of the text, and tokens as
  // for end_token. Nothing is left of a word that is marks alone.
  size_t stem_bytes = 0, stem_end_token = 0;

  std::string_view stem() const { return std::string_view(text).substr(0, stem_bytes); }
};

// What is needed to read a guess.
struct CaptionTokens {
  int32_t end_of_text = 0;      // text tokens are below it
  int32_t timestamp_begin = 0;  // timestamps are from it on, 20 ms apart
  bool by_character = false;    // the language has no spaces between words
  size_t n_given = 0;           // of the guess; a word ends where these do
  std::function<std::string_view(int32_t id)> bytes_of;
};

// The words of a guess at a window that begins at `offset_s` and has sound up to `end_s`. A
// segment's time, up to the window's end if it is open, is dealt out to its words by their length.
std::vector<CaptionWord> caption_words(std::span<const int32_t> guess, const CaptionTokens& tokens,
                                       double offset_s, double end_s);

class LocalAgreement {
 public:
  // Which words are doubtful, and how much later these are final, is a matter of the policy.
  explicit LocalAgreement(const WindowPolicy& policy = {}) : policy_(policy) {}

  // `words`: those of the latest guess after the final ones, with sound up to `end_s`. Returns
  // those that are final now: as far as the guess before has the same and its sound had them, for
  // models go on with what is likely to be said, and more behind them where the model doubts them;
  // and those that ended more than `patience_s` ago, which more sound does not change any more. Of
  // the last one that is the stem: which mark stands behind a word is only known when the next is.
  std::vector<CaptionWord> agree(std::span<const CaptionWord> words, double end_s,
                                 double patience_s);

  // Another window begins.
  void forget() { previous_.clear(); }

 private:
  WindowPolicy policy_;
  std::vector<CaptionWord> previous_;  // of the guess before, what is not final
  double previous_end_s_ = 0;          // of the sound that it had
};

// The last word loses its marks; it goes if it is nothing else.
void leave_marks_open(std::vector<CaptionWord>& words);

// How far a window's text has been shown.
struct ShownPart {
  // Of each shown word within `whole` the one there, rising; shown words beyond are behind its end.
  std::vector<size_t> stands_for;
  size_t n_whole = 0;  // words of `whole` that have been shown, one way or another
};
// Lays the words that were shown over the text of the window as a whole, so that as few as can be
// differ: one of the two ends in the other. Of several ways the one that ends where the last word
// was heard.
ShownPart find_shown(std::span<const CaptionWord> shown, std::span<const CaptionWord> whole);

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

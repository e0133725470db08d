// Decides from the model's evidence whether decoded text was said in the window.
//
// A speech model finds words in any sound. openai-whisper takes a window as silent only if the
// no-speech probability is high and the text improbable; but the model is very sure of loops. These
// rules use more of the same evidence. docs/decisions/0025 has their reasons and measurements.
// Called by decoder/windows/window_decoder for each attempt at a window.
#pragma once

#include <string_view>

#include "decoder/decoding_settings.h"

namespace vesper {

// Evidence of one attempt at a window.
struct WindowEvidence {
  double no_speech_prob = 0;     // 0 to 1
  double avg_logprob = 0;        // natural logarithm, mean over the tokens
  double compression_ratio = 0;  // of the text
  bool loops = false;            // find_loop of decoder/windows/attempts/repetition.h found a loop
  bool is_one_loop = false;      // is_one_loop of decoder/windows/attempts/repetition.h
  bool has_words = false;        // has_words of the text
};

// No speech, by openai-whisper's rule alone.
bool is_silent_by_reference(const WindowEvidence& evidence, const DecodingSettings& settings);

// No speech. Equals openai-whisper's rule if all rules of `settings.policy` are off.
bool is_silent(const WindowEvidence& evidence, const DecodingSettings& settings);

// Speech is in doubt but not improbable, and the text is repetitive: silence, unless another
// attempt is convincing.
bool is_doubtful_loop(const WindowEvidence& evidence, const DecodingSettings& settings);
bool is_convincing(const WindowEvidence& evidence, const DecodingSettings& settings);
// Whether the text is probable enough if speech is in doubt.
bool is_believable(const WindowEvidence& evidence, const DecodingSettings& settings);

// There is speech, and the text is good.
bool is_surely_speech(const WindowEvidence& evidence, const DecodingSettings& settings);
// Whether only the no-speech probability speaks against the text.
bool is_only_doubted(const WindowEvidence& evidence, const DecodingSettings& settings);

// The text needs another attempt: it is repetitive or improbable.
bool has_failed(const WindowEvidence& evidence, const DecodingSettings& settings);

// Of two failed attempts: `a` is less repetitive, or otherwise more probable.
bool is_better(const WindowEvidence& a, const WindowEvidence& b, const DecodingSettings& settings);

// Whether a UTF-8 text has a letter or digit of any script; text such as "..." or musical notes has
// none.
bool has_words(std::string_view text);

}  // namespace vesper

// Decides whether a window has speech, from the model's evidence.
//
// Whisper finds words in any sound. openai-whisper treats a window as silent only if the no-speech
// probability is high and the text improbable, but loops are very probable. These rules use more of
// the same evidence. docs/decisions/0025 has reasons and measurements.
// Called by decoder/windows/window_decoder for each attempt at a window.
#pragma once

#include <optional>

#include "decoder/decoding_settings.h"

namespace vesper {

// Evidence of one attempt at a window.
struct WindowEvidence {
  double no_speech_prob = 0;     // 0 to 1
  double avg_logprob = 0;        // natural logarithm, mean over the tokens
  double compression_ratio = 0;  // of the text
  bool is_one_loop = false;      // is_one_loop of decoder/windows/attempts/repetition.h
  // Whether a VAD model finds speech in the window; absent without a VAD model.
  std::optional<bool> has_speech = std::nullopt;
};

// No speech, by openai-whisper's rule alone.
bool is_silent_by_reference(const WindowEvidence& evidence, const DecodingSettings& settings);

// No speech. Equals openai-whisper's rule if all rules of `settings.policy` are off.
bool is_silent(const WindowEvidence& evidence, const DecodingSettings& settings);

// The text is repetitive or improbable: another attempt is needed.
bool has_failed(const WindowEvidence& evidence, const DecodingSettings& settings);

// Of two failed attempts: `a` is less repetitive, or otherwise more probable.
bool is_better(const WindowEvidence& a, const WindowEvidence& b, const DecodingSettings& settings);

}  // namespace vesper

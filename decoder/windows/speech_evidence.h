// Whether what was decoded of a window was said in it: what is made of the model's own evidence.
//
// A model made for speech finds words in anything. openai-whisper takes a window for silent only if
// the model both sees no speech and is unsure of its text; what it repeats for ever it is very sure
// of. The rules here use the same evidence to the full; how they were found and what they are worth
// is in docs/decisions/0025. Called by decoder/windows/transcriber for each attempt at a window.
#pragma once

#include <string_view>

#include "decoder/decoding_settings.h"

namespace vesper {

// What is known of one attempt at a window.
struct WindowEvidence {
  double no_speech_prob = 0;     // 0 to 1
  double avg_logprob = 0;        // natural logarithm, mean over the tokens
  double compression_ratio = 0;  // of the text
  bool loops = false;            // find_loop of decoder/windows/repetition.h found something
  bool is_one_loop = false;      // is_one_loop of decoder/windows/repetition.h
  bool has_words = false;        // has_words of its text
};

// Nothing was said, by openai-whisper's rule alone.
bool is_silent_by_reference(const WindowEvidence& evidence, const DecodingSettings& settings);

// Nothing was said. With every rule of `settings.policy` off this is openai-whisper's rule.
bool is_silent(const WindowEvidence& evidence, const DecodingSettings& settings);

// Speech is doubtful, but not unlikely, and the text repeats itself: silence, unless another
// attempt at the window is convincing.
bool is_doubtful_loop(const WindowEvidence& evidence, const DecodingSettings& settings);
bool is_convincing(const WindowEvidence& evidence, const DecodingSettings& settings);
// Whether the text is probable enough where speech is doubtful.
bool is_believable(const WindowEvidence& evidence, const DecodingSettings& settings);

// Something was said, and the text is good.
bool is_surely_speech(const WindowEvidence& evidence, const DecodingSettings& settings);
// Whether the text is one that speech could have, and only the no-speech probability is against it.
bool is_only_doubted(const WindowEvidence& evidence, const DecodingSettings& settings);

// The text is worth another attempt: it repeats itself or is improbable.
bool has_failed(const WindowEvidence& evidence, const DecodingSettings& settings);

// Of two attempts that failed: the first is less repetitive, or else more probable.
bool is_better(const WindowEvidence& a, const WindowEvidence& b, const DecodingSettings& settings);

// Whether a text, in UTF-8, has a letter or digit of any script: else it says nothing, as "..." or
// notes of music.
bool has_words(std::string_view text);

}  // namespace vesper

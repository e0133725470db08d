// DecodingSettings: how a recording is decoded, with the defaults of every program and of the C
// API. Comes from the caller of session/SpeechSession; read by decoder/.
//
// Names and defaults are openai-whisper's (the defaults of its command line) where it has the
// setting, else faster-whisper's, else ours, which the comment says.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decoder/windows/window_policy.h"

namespace vesper {

// Limits of DecodingSettings::beam_size and DecodingSettings::patience.
inline constexpr uint32_t kMostBeamSize = 16, kMostPatience = 8;

// Punctuation that belongs to the word after it, and to the word before it.
struct Punctuation {
  std::string prepended = "\"'“¿([{-";
  std::string appended = "\"'.。,，!！?？:：”)]}、";
};

// openai-whisper's temperature_increment_on_fallback.
inline constexpr double kFallbackIncrement = 0.2;

// `first`, `first` + `increment`, ... up to 1; `first` alone if it is above 1.
inline std::vector<double> rising_temperatures(double first, double increment) {
  constexpr double kHottest = 1.0 + 1e-6;
  std::vector<double> temperatures{first};
  for (int i = 1; first + i * increment <= kHottest; ++i) {
    temperatures.push_back(first + i * increment);
  }
  return temperatures;
}

struct DecodingSettings {
  // ---- Language and task
  std::string language = "auto";  // a code or an English name, lower case; "auto" detects it
  bool translate = false;         // into English
  // Detection looks at up to this many windows, until one gives a language more than the threshold
  // (faster-whisper).
  uint32_t language_detection_segments = 1;
  double language_detection_threshold = 0.5;  // probability
  // Follow the language where it changes (decoder/windows/languages/mixed_languages.h). A language
  // that is much less likely than the threshold changes nothing (faster-whisper).
  bool multilingual = false;

  // ---- Search
  // Tried in this order until a window passes the thresholds below.
  std::vector<double> temperatures = rising_temperatures(0, kFallbackIncrement);
  uint32_t beam_size = 5;  // at temperature 0; 1: the likeliest token each time
  double patience = 1;     // the search ends when beam_size * patience texts have ended
  uint32_t best_of = 5;    // sequences that are drawn at a temperature above 0
  // Of several sequences the best has the greatest sum of log-probabilities over this power of
  // (5 + length) / 6; over its length if absent.
  std::optional<double> length_penalty;
  // Above 1, tokens that have been chosen become less likely (faster-whisper).
  double repetition_penalty = 1;
  // No run of this many tokens comes twice in a window; 0: any may (faster-whisper).
  uint32_t no_repeat_ngram_size = 0;
  uint32_t seed = 0;  // of the draws (ours)

  // ---- Thresholds; one that is absent is not applied
  std::optional<double> no_speech_threshold = 0.6;          // probability, above it: silence
  std::optional<double> logprob_threshold = -1.0;           // mean log-probability, below: failed
  std::optional<double> compression_ratio_threshold = 2.4;  // above it: repetitive, failed
  WindowPolicy policy;                                      // the rules beyond openai-whisper's

  // ---- Prompts
  bool condition_on_previous_text = true;
  std::string initial_prompt;         // text before the first window
  bool carry_initial_prompt = false;  // before every window
  std::string hotwords;  // text before every window, before what was said (faster-whisper)
  std::string prefix;    // the first window begins with it; part of its text

  // ---- Tokens that are never chosen
  bool suppress_model_tokens = true;     // those that the model's file (or openai-whisper) lists
  std::vector<int32_t> suppress_tokens;  // token ids, in addition
  std::string suppress_regex;            // tokens whose whole text it matches (whisper.cpp)
  bool suppress_numerals = false;        // tokens with digits, or signs of money and percent (ours)

  // ---- Times
  double max_initial_timestamp_s = 1.0;  // the first timestamp of a window is not later
  bool without_timestamps = false;
  // Of a window; absent: half the model's text context (faster-whisper).
  std::optional<uint32_t> max_new_tokens;
  bool word_timestamps = false;  // fill Segment::words; segments begin and end with their words
  Punctuation punctuation;       // that is part of a word
  // Seconds: improbable text between longer silences is left out. Needs word_timestamps.
  std::optional<double> hallucination_silence_threshold_s;
  // Characters: longer segments are cut, between tokens or, with split_on_word, between words
  // (whisper.cpp's --max-len and --split-on-word). Needs word_timestamps.
  std::optional<uint32_t> max_segment_length;
  bool split_on_word = false;
  // Seconds: start, end, start, end, ... of the clips to transcribe; the last end may be left out.
  // Empty: all of the recording.
  std::vector<double> clip_timestamps;
};

// The number of finished texts that ends a beam search (openai-whisper, BeamSearchDecoder).
inline uint32_t most_finished(const DecodingSettings& settings) {
  return static_cast<uint32_t>(std::nearbyint(settings.beam_size * settings.patience));
}

// The most sequences that a window is decoded with at once: beams or draws.
inline uint32_t most_candidates(const DecodingSettings& settings) {
  uint32_t most = 1;
  for (const double temperature : settings.temperatures) {
    most = std::max(most, temperature > 0 ? settings.best_of : settings.beam_size);
  }
  return most;
}

}  // namespace vesper

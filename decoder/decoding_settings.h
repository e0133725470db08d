// DecodingSettings: how a recording is decoded, with the defaults of every program and of the C
// API. Set by the caller of session/SpeechSession; read by decoder/.
//
// Names and defaults are those of openai-whisper's command line if it has the setting, otherwise
// faster-whisper's or, as the comment says, ours.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decoder/windows/window_policy.h"
#include "llm/grammar/grammar_options.h"

namespace vesper {

// Limits of DecodingSettings::beam_size and DecodingSettings::patience.
inline constexpr uint32_t kMostBeamSize = 16, kMostPatience = 8;

// Punctuation that belongs to the next word, and to the previous word.
struct Punctuation {
  std::string prepended = "\"'“¿([{-";
  std::string appended = "\"'.。,，!！?？:：”)]}、";
};

// openai-whisper's temperature_increment_on_fallback.
inline constexpr double kFallbackIncrement = 0.2;

// `first`, `first` + `increment`, ... up to 1; only `first` if it is above 1.
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
  // Detection uses up to this many windows, until one has a language above the threshold
  // (faster-whisper).
  uint32_t language_detection_segments = 1;
  double language_detection_threshold = 0.5;  // probability
  // Follow changes of the language (decoder/windows/languages/mixed_languages.h). A language far
  // below the threshold is ignored (faster-whisper).
  bool multilingual = false;

  // ---- Search
  // Tried in order until a window passes the thresholds below.
  std::vector<double> temperatures = rising_temperatures(0, kFallbackIncrement);
  uint32_t beam_size = 5;  // at temperature 0; 1: greedy
  double patience = 1;     // the search ends with beam_size * patience finished hypotheses
  uint32_t best_of = 5;    // samples at a temperature above 0
  // The best of several sequences has the greatest sum of log-probabilities / ((5 + length) /
  // 6)^length_penalty, or / length if absent.
  std::optional<double> length_penalty;
  // Above 1, sampled tokens become less probable (faster-whisper).
  double repetition_penalty = 1;
  // No n-gram of this size occurs twice in a window; 0: off (faster-whisper).
  uint32_t no_repeat_ngram_size = 0;
  // What may be sampled at a temperature above 0: the top_k likeliest tokens (0: all), of them the
  // likeliest up to a mass of top_p (1: all; CTranslate2's sampling_topk and sampling_topp), of
  // them those with at least min_p times the probability of the likeliest (0: all; llama.cpp's).
  uint32_t top_k = 0;
  double top_p = 1, min_p = 0;
  uint32_t seed = 0;  // of the sampling noise (ours)

  // ---- Thresholds; absent: off
  std::optional<double> no_speech_threshold = 0.6;          // probability; above: silence
  std::optional<double> logprob_threshold = -1.0;           // mean log-probability; below: failure
  std::optional<double> compression_ratio_threshold = 2.4;  // above: repetitive, failure
  WindowPolicy policy;                                      // rules beyond openai-whisper's

  // ---- Prompts
  bool condition_on_previous_text = true;
  std::string initial_prompt;         // before the first window
  bool carry_initial_prompt = false;  // before every window
  std::string hotwords;               // before previous text in every window (faster-whisper)
  std::string prefix;                 // the first window begins with it; part of its text

  // ---- Suppressed tokens
  bool suppress_model_tokens = true;     // those of the model's file, or openai-whisper's list
  std::vector<int32_t> suppress_tokens;  // additional token ids
  std::string suppress_regex;            // tokens whose whole text matches (whisper.cpp)
  bool suppress_numerals = false;        // tokens with digits, currency or percent signs (ours)

  // ---- Grammar
  // The text of each window is one of this grammar, after a space or not; only max_new_tokens ends
  // it earlier. Windows are then searched greedily, not by beams, and the model's suppressed tokens
  // may be sampled. GrammarOptions::after is absent.
  std::optional<GrammarOptions> grammar;

  // ---- Times
  double max_initial_timestamp_s = 1.0;  // limit of the first timestamp of a window
  bool without_timestamps = false;
  // Per window; absent: half the model's text context (faster-whisper).
  std::optional<uint32_t> max_new_tokens;
  bool word_timestamps = false;  // fill Segment::words; segments begin and end with words
  Punctuation punctuation;       // merged into words
  // Seconds: improbable text between longer silences is rejected. Needs word_timestamps.
  std::optional<double> hallucination_silence_threshold_s;
  // Characters: longer segments are cut, between tokens or, with split_on_word, between words
  // (whisper.cpp's --max-len and --split-on-word). Needs word_timestamps.
  std::optional<uint32_t> max_segment_length;
  bool split_on_word = false;
  // Seconds: start, end, start, end, ... of the clips to transcribe; the last end is optional.
  // Empty: the whole recording.
  std::vector<double> clip_timestamps;
};

// The number of finished hypotheses that ends a beam search (openai-whisper, BeamSearchDecoder).
inline uint32_t most_finished(const DecodingSettings& settings) {
  return static_cast<uint32_t>(std::nearbyint(settings.beam_size * settings.patience));
}

// The largest number of sequences of a window: beams or samples.
inline uint32_t most_candidates(const DecodingSettings& settings) {
  uint32_t most = 1;
  for (const double temperature : settings.temperatures) {
    most = std::max(most, temperature > 0 ? settings.best_of : settings.beam_size);
  }
  return most;
}

}  // namespace vesper

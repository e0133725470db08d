// How a recording is to be decoded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vesper {

// The most beams of a window, and texts that may end for each.
inline constexpr uint32_t kMostBeamSize = 16, kMostPatience = 8;

// Punctuation that belongs to the word after it, and to the word before it.
struct Punctuation {
  std::string prepended = "\"'“¿([{-";
  std::string appended = "\"'.。,，!！?？:：”)]}、";
};

// What may differ from recording to recording. Names are openai-whisper's where it has the setting,
// else faster-whisper's.
struct DecodingSettings {
  std::string language = "auto";  // a code or an English name, lower case; "auto" detects it
  bool translate = false;         // into English
  // Detection looks at up to so many windows, until one gives a language more than the threshold.
  uint32_t language_detection_segments = 1;
  double language_detection_threshold = 0.5;  // probability
  // Follow the language where it changes (decoder/windows/mixed_languages.h); one that is much less
  // likely than the threshold changes nothing.
  bool multilingual = false;

  // Tried in this order until a window passes the thresholds.
  std::vector<double> temperatures = {0};
  uint32_t beam_size = 1;  // beams of the search at temperature 0; 1: the likeliest token each time
  double patience = 1;     // a search ends when so many texts for each beam have ended
  uint32_t best_of = 5;    // sequences that are drawn at a temperature above 0
  // Of several sequences the best has the greatest sum of log-probabilities over this power of
  // (5 + length) / 6; over its length if absent.
  std::optional<double> length_penalty;
  double repetition_penalty = 1;  // above 1, tokens that have been chosen become less likely
  uint32_t no_repeat_ngram_size =
      0;              // no run of so many tokens comes twice in a window; 0: any may
  uint32_t seed = 0;  // of what is drawn
  // A threshold that is absent is not applied.
  std::optional<double> no_speech_threshold = 0.6;          // probability, above it: silence
  std::optional<double> logprob_threshold = -1.0;           // mean log-probability, below: failed
  std::optional<double> compression_ratio_threshold = 2.4;  // above it: repetitive, failed

  // openai-whisper's rules alone: without ours against what was not said
  // (decoder/windows/speech_evidence.h) and against loops (decoder/windows/repetition.h).
  bool reference = false;

  bool condition_on_previous_text = true;
  std::string initial_prompt;         // text before the first window
  bool carry_initial_prompt = false;  // before every window
  std::string hotwords;               // text before every window, before what was said
  std::string prefix;                 // what the first window begins with, part of its text

  double max_initial_timestamp_s = 1.0;  // the first timestamp of a window is not later
  bool without_timestamps = false;
  std::optional<uint32_t> max_new_tokens;  // a window has at most; absent: half the context
  bool suppress_model_tokens = true;       // those that the model's file (or the reference) lists
  std::vector<int32_t> suppress_tokens;    // and these
  std::string suppress_regex;              // and those whose whole text it matches, if not empty
  bool suppress_numerals = false;          // and those with digits or signs of money and percent
  bool word_timestamps = false;  // fill Segment::words, and let them say where segments end
  Punctuation punctuation;       // that is part of a word
  // Seconds: improbable text between longer silences is left out. Needs word_timestamps.
  std::optional<double> hallucination_silence_threshold_s;
  // Characters: longer segments are cut, between tokens or, with split_on_word, between words.
  // Needs word_timestamps.
  std::optional<uint32_t> max_segment_length;
  bool split_on_word = false;
  // Seconds: start, end, start, end, ... of the stretches to transcribe; the last end may be left
  // out. Empty: all of it.
  std::vector<double> clip_timestamps;
};

// The texts that end a search with these settings (openai-whisper, BeamSearchDecoder).
inline uint32_t most_finished(const DecodingSettings& settings) {
  return static_cast<uint32_t>(std::nearbyint(settings.beam_size * settings.patience));
}

// The most sequences that a window is decoded with at once.
inline uint32_t most_candidates(const DecodingSettings& settings) {
  uint32_t most = 1;
  for (const double temperature : settings.temperatures) {
    most = std::max(most, temperature > 0 ? settings.best_of : settings.beam_size);
  }
  return most;
}

}  // namespace vesper

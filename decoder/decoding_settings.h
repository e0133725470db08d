// How a recording is to be decoded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vesper {

// What may differ from recording to recording. Names and defaults are openai-whisper's.
struct DecodingSettings {
  std::string language = "auto";  // a code or an English name, lower case; "auto" detects it
  bool translate = false;         // into English
  bool condition_on_previous_text = true;
  std::vector<double> temperatures = {0};  // tried in this order until a window passes
  // A threshold that is absent is not applied.
  std::optional<double> no_speech_threshold = 0.6;          // probability, above it: silence
  std::optional<double> logprob_threshold = -1.0;           // mean log-probability, below: failed
  std::optional<double> compression_ratio_threshold = 2.4;  // above it: repetitive, failed
  std::string initial_prompt;                               // text before the first window
  double max_initial_timestamp_s = 1.0;  // the first timestamp of a window is not later
  bool without_timestamps = false;
  bool suppress_model_tokens = true;     // those that the model's file (or the reference) lists
  std::vector<int32_t> suppress_tokens;  // and these
};

}  // namespace vesper

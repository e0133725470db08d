// The attempts at one window at rising temperatures, without a model: selects the result.
//
// In: the judged result of each attempt. Out: whether another attempt is needed, and the window's
// result. Called by decoder/windows/window_decoder.h, and by the batch driver for the first
// attempt. With all rules of WindowPolicy off this is openai-whisper's loop over temperatures.
#pragma once

#include <optional>

#include "decoder/decoding_settings.h"
#include "decoder/whisper_decoder.h"
#include "decoder/windows/attempts/speech_evidence.h"

namespace vesper {

// The judged result of one attempt at a window.
struct WindowResult {
  DecodeResult decoded;
  double temperature = 0;
  WindowEvidence evidence;
  bool is_silent = false;  // no speech in the window
};

// There is speech, and no threshold rejects the text.
bool passes(const WindowResult& result, const DecodingSettings& settings);

class WindowAttempts {
 public:
  // `settings` must outlive this object.
  explicit WindowAttempts(const DecodingSettings& settings) : settings_(settings) {}

  // Takes the result of the next attempt. Returns whether it decides the window: no other attempt
  // is needed.
  bool take(WindowResult result);
  // The selected result, after at least one attempt.
  WindowResult result() && { return *std::move(best_); }

 private:
  const DecodingSettings& settings_;
  bool has_text_ = false;  // an attempt failed but was not silent
  std::optional<WindowResult> best_;
};

}  // namespace vesper

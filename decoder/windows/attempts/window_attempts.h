// The attempts at one window, as a state machine without a model: the next attempt, and the result
// that counts.
//
// In: the judged result of each attempt. Out: the next attempt, or the window's result. Called by
// decoder/windows/window_decoder.h, and by the batch driver for the first attempt. The rules are
// switches of WindowPolicy; with all of them off this is openai-whisper's loop over temperatures.
#pragma once

#include <cstddef>
#include <cstdint>
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
  bool is_silent = false;       // no speech in the window
  bool without_prompt = false;  // decoded without previous text
  bool is_chant = false;  // every attempt loops and this one ends with an end token: people chant
};

// There is speech, and no threshold rejects the text.
bool passes(const WindowResult& result, const DecodingSettings& settings);

// Settings of an attempt.
struct WindowAttempt {
  double temperature = 0;
  size_t seed_index = 0;        // for attempt_seed
  bool without_prompt = false;  // without previous text
  bool is_amplified = false;    // at usual loudness
};

class WindowAttempts {
 public:
  enum class Stage {
    kPrompted,    // with previous text, at rising temperatures
    kUnprompted,  // without previous text, at rising temperatures
    kSparse,      // good text that seems to omit speech: again without previous text
    kAmplified,   // silence in a faint window: again, louder
    kDone
  };

  struct Window {
    bool has_prompt = false;
    bool is_faint = false;        // amplify_window would change it
    uint32_t max_tokens = 0;      // of its text, including end of text
    int32_t timestamp_begin = 0;  // first timestamp token
    int32_t end_of_text = 0;      // text tokens are below it
  };

  // `settings` must outlive this object.
  WindowAttempts(const DecodingSettings& settings, const Window& window);

  Stage stage() const { return stage_; }
  // Empty when the window is decided.
  std::optional<WindowAttempt> next() const;
  // The result of the attempt returned by next().
  void take(WindowResult result);
  // Of a decided window.
  WindowResult result() &&;

 private:
  // Result of the attempts without previous text.
  enum class Belief {
    kOpen,
    kLoopsInDoubt,  // repetitive text, speech in doubt: only convincing text counts from now on
    kBelieved       // some text was accepted, though it failed
  };

  void take_attempt(WindowResult result);
  void take_sparse(WindowResult result);
  // Decides for `result`, unless another attempt is due.
  void decide(WindowResult result);
  void raise_temperature();
  size_t n_text_tokens(const WindowResult& result) const;

  const DecodingSettings& settings_;
  Window window_;
  Stage stage_;
  size_t temperature_ = 0;  // index into settings_.temperatures
  Belief belief_ = Belief::kOpen;
  bool every_attempt_loops_ = true;
  std::optional<WindowResult> best_;  // best failed attempt; the result when decided
};

}  // namespace vesper

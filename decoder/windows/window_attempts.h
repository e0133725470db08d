// The attempts at one window, as a state machine without a model: which attempt comes next, and
// which result counts in the end.
//
// In: the judged result of each attempt. Out: the next attempt, or the window's result. Called by
// decoder/windows/window_decoder.h, and by the batch driver for the first attempt of a window. The
// rules are switches of WindowPolicy; with all of them off this is openai-whisper's loop over the
// temperatures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "decoder/decoding_settings.h"
#include "decoder/whisper_decoder.h"
#include "decoder/windows/speech_evidence.h"

namespace vesper {

// The judged result of one attempt at a window.
struct WindowResult {
  DecodeResult decoded;
  double temperature = 0;
  WindowEvidence evidence;
  bool is_silent = false;       // no speech in the window
  bool without_prompt = false;  // the text before the window was not given
  bool is_chant = false;        // every attempt loops and this one ends by itself: people say it so
};

// Speech was found, and no threshold rejects the text.
bool passes(const WindowResult& result, const DecodingSettings& settings);

// How a window is decoded.
struct WindowAttempt {
  double temperature = 0;
  size_t seed_index = 0;        // for attempt_seed
  bool without_prompt = false;  // leave out the text before the window
  bool is_amplified = false;    // first make the window as loud as speech usually is
};

class WindowAttempts {
 public:
  enum class Stage {
    kPrompted,    // with the text before the window, at rising temperatures
    kUnprompted,  // without it, at rising temperatures
    kSparse,      // a good text that seems to leave out speech: once more without the prompt
    kAmplified,   // silence in a faint window: once more, louder
    kDone
  };

  struct Window {
    bool has_prompt = false;
    bool is_faint = false;        // amplify_window would change it
    uint32_t max_tokens = 0;      // of its text, end of text included
    int32_t timestamp_begin = 0;  // token ids from here on are timestamps
    int32_t end_of_text = 0;      // token ids below are text
  };

  // `settings` must outlive this.
  WindowAttempts(const DecodingSettings& settings, const Window& window);

  Stage stage() const { return stage_; }
  // None when the window is decided.
  std::optional<WindowAttempt> next() const;
  // The result of the attempt that next() names.
  void take(WindowResult result);
  // Of a decided window.
  WindowResult result() &&;

 private:
  // What attempts without the prompt say about speech in the window.
  enum class Belief {
    kOpen,
    kLoopsInDoubt,  // repetitive text, speech in doubt: only convincing text counts from now on
    kBelieved       // some text was believed, though it failed
  };

  void take_attempt(WindowResult result);
  void take_sparse(WindowResult result);
  // Decides for `result`, unless another look at the window is due.
  void decide(WindowResult result);
  void raise_temperature();
  size_t n_text_tokens(const WindowResult& result) const;

  const DecodingSettings& settings_;
  Window window_;
  Stage stage_;
  size_t temperature_ = 0;  // index into settings_.temperatures
  Belief belief_ = Belief::kOpen;
  bool every_attempt_loops_ = true;
  std::optional<WindowResult> best_;  // of the attempts that failed; when decided, the result
};

}  // namespace vesper

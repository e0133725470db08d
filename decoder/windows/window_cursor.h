// Where the decoding of a recording is: plain data that the drivers hold and WindowDecoder moves.
//
// In: nothing. Out: WindowCursor (the next window and what is known before it), AudioWindow (the
// audio of one window) and RecordingState (the transcript so far). A copy of a cursor is a complete
// bookmark: decoding from it again gives the same text. Used by decoder/windows/window_decoder.h
// and the drivers beside it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "decoder/transcript/transcript.h"
#include "decoder/windows/prompt_history.h"

namespace vesper {

struct WindowCursor {
  uint64_t seek = 0;         // frame at which the next window begins
  uint64_t end = 0;          // frame at which the audio to decode ends
  uint64_t limit = 0;        // frame at which the next window ends at the latest
  bool is_first = true;      // no window of the recording was decoded yet
  PromptHistory history;     // the prompt of the next window
  std::string language;      // ISO 639-1 code of the next window; empty: not known
  double last_speech_s = 0;  // end of the last word before `seek`, if words are timed

  bool is_at_end() const { return seek >= end; }
  // Frames of the next window that hold audio.
  uint32_t n_frames(uint32_t window_frames) const {
    return static_cast<uint32_t>(std::min<uint64_t>(window_frames, limit - seek));
  }
  bool operator==(const WindowCursor&) const = default;
};

// Up to 30 s of audio, as the encoder takes it.
struct AudioWindow {
  std::vector<float> log_mel;  // [frames of a whole window, n_mels], scaled, 0 behind the audio
  uint32_t n_frames = 0;       // that hold audio
};

// What is known of a recording so far.
struct RecordingState {
  Transcript transcript;
  bool language_is_found = false;  // given, or a window with speech was decoded in it
  uint64_t n_content_frames = 0;   // of the whole recording
};

}  // namespace vesper

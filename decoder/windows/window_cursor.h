// The state of decoding a recording: plain data that the drivers own and WindowDecoder advances.
//
// WindowCursor is the next window and the state before it, AudioWindow the audio of one window,
// RecordingState the transcript so far. A copy of a cursor is a complete bookmark: decoding from it
// again gives the same text. Used by decoder/windows/window_decoder.h and the drivers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decoder/transcript/transcript.h"
#include "decoder/windows/prompt_history.h"
#include "vad/speech_segments.h"

namespace vesper {

struct WindowCursor {
  uint64_t seek = 0;         // first frame of the next window
  uint64_t end = 0;          // end frame of the audio
  uint64_t limit = 0;        // latest end frame of the next window
  bool is_first = true;      // no window of the recording was decoded yet
  PromptHistory history;     // the prompt of the next window
  std::string language;      // ISO 639-1 code for the next window; empty: unknown
  double last_speech_s = 0;  // end of the last word before `seek`, with word times

  bool is_at_end() const { return seek >= end; }
  // Frames of the next window with audio.
  uint32_t n_frames(uint32_t window_frames) const {
    return static_cast<uint32_t>(std::min<uint64_t>(window_frames, limit - seek));
  }
  bool operator==(const WindowCursor&) const = default;
};

// Up to 30 s of audio, as input of the encoder.
struct AudioWindow {
  std::vector<float> log_mel;  // [frames of a full window, n_mels], scaled, 0 after the audio
  uint32_t n_frames = 0;       // frames with audio
};

// The state of a recording.
struct RecordingState {
  Transcript transcript;
  bool language_is_found = false;  // given, or detected in a window with speech
  // Frames in which a VAD model finds speech, in order; absent without a VAD model.
  std::optional<std::vector<SpeechSegment>> speech = std::nullopt;
  uint64_t n_content_frames = 0;  // of the whole recording
};

}  // namespace vesper

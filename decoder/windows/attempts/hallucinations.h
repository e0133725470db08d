// Finds text that was probably invented in a silence, by the times and probabilities of its words:
// openai-whisper's hallucination_silence_threshold.
#pragma once

#include <cstdint>
#include <vector>

#include "decoder/transcript/transcript.h"
#include "decoder/windows/window_policy.h"

namespace vesper {

// A decoded window, in frames of 10 ms of the recording.
struct WindowPlace {
  uint64_t seek = 0;         // first frame
  uint32_t n_frames = 0;     // frames of the window within the recording
  uint32_t n_window = 0;     // frames of a full window
  uint64_t n_content = 0;    // frames of the recording
  double last_speech_s = 0;  // end of the previous speech
};

struct AfterWindow {
  uint64_t seek = 0;   // first frame of the next window
  bool again = false;  // discard the window: its start was silence
};

// Whether the segment's words are improbable, very short or very long.
bool is_anomalous(const Segment& segment, const WindowPolicy& policy = {});

// Removes segments that are anomalous and between silences of more than `threshold_s` seconds, and
// all segments after them. `seek` is the start of the next window; `to_the_end` says that no speech
// follows the segments in the window.
AfterWindow skip_hallucinations(std::vector<Segment>& segments, const WindowPlace& window,
                                uint64_t seek, bool to_the_end, double threshold_s,
                                const WindowPolicy& policy = {});

}  // namespace vesper

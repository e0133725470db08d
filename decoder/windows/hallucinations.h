// Text that was probably made up in a silence, told by the times and probabilities of its words:
// openai-whisper's hallucination_silence_threshold.
#pragma once

#include <cstdint>
#include <vector>

#include "decoder/transcript/transcript.h"

namespace vesper {

// A window that was decoded, in the recording. Frames are of 10 ms.
struct WindowPlace {
  uint64_t seek = 0;         // its first frame
  uint32_t n_frames = 0;     // of it that are of the recording
  uint32_t n_window = 0;     // frames of a whole window
  uint64_t n_content = 0;    // frames of the recording
  double last_speech_s = 0;  // where the speech before it ended
};

struct AfterWindow {
  uint64_t seek = 0;   // where the next window begins
  bool again = false;  // nothing of the window counts: its start was silence
};

// Whether the segment's words are improbable, very short or very long.
bool is_anomalous(const Segment& segment);

// Takes out of a window's segments those that stand between silences of more than `threshold_s`
// seconds and are anomalous, and all after them. `seek` is where the next window would begin, and
// `to_the_end` says that no speech follows the segments in the window.
AfterWindow skip_hallucinations(std::vector<Segment>& segments, const WindowPlace& window,
                                uint64_t seek, bool to_the_end, double threshold_s);

}  // namespace vesper

// Cuts the decoded tokens of a window into segments, and finds the start of the next window, as in
// openai-whisper's transcribe.py.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vesper {

inline constexpr double kFrameSeconds = 0.01;      // a log-mel frame: 160 samples at 16 kHz
inline constexpr double kTimestampSeconds = 0.02;  // a timestamp step: two frames
inline constexpr uint32_t kFramesPerTimestamp = 2;

struct WindowSegment {
  double start_s = 0, end_s = 0;  // from the start of the recording
  std::vector<int32_t> tokens;    // including timestamps
};

struct WindowSegments {
  std::vector<WindowSegment> segments;
  uint32_t advance_frames = 0;  // from the first frame of this window to that of the next, at least
                                // 1
  bool to_the_end = false;      // a single timestamp ends the window: no speech follows it
};

// `tokens` are those of a window that begins at frame `seek` and has `n_content_frames` (at most a
// full window) of the recording. Segments end at pairs of timestamps. A single timestamp at the end
// means that no speech follows in the window.
WindowSegments cut_window(std::span<const int32_t> tokens, int32_t timestamp_begin, uint64_t seek,
                          uint32_t n_content_frames);

}  // namespace vesper

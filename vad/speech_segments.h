// Speech segments of a recording.
//
// In: a probability of speech for every 32 ms (SileroVad). Out: segments in samples and in log-mel
// frames, and a mapping from times in the joined segments to times in the recording. Called by
// vad/extract_speech.h and the sessions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vesper {

// Silence begins so much below the threshold of speech (silero-vad).
inline constexpr double kVadHysteresis = 0.15;

// Names of faster-whisper's VadOptions and silero-vad's get_speech_timestamps.
struct SpeechSettings {
  double threshold = 0.5;  // probability above which speech begins
  // Probability below which a silence begins; absent: threshold - 0.15, at least 0.01.
  std::optional<double> neg_threshold;
  double min_speech_duration_ms = 250;    // a shorter segment is dropped
  double min_silence_duration_ms = 2000;  // a shorter silence does not end a segment
  double speech_pad_ms = 400;             // added before and after each segment
  // A longer segment is cut, at its longest silence of more than 98 ms if there is one.
  double max_speech_duration_s = std::numeric_limits<double>::infinity();
};

// Samples at 16 kHz, begin < end.
struct SampleRange {
  uint64_t begin = 0, end = 0;
  bool operator==(const SampleRange&) const = default;
};

// The speech segments of a recording of `n_samples`, in order and without overlap, from its
// probabilities (SileroVad). Throws Error(kUsage) for settings out of range.
std::vector<SampleRange> find_speech(std::span<const float> probabilities, uint64_t n_samples,
                                     const SpeechSettings& settings);

// Log-mel frames of 10 ms, begin < end.
struct SpeechSegment {
  uint64_t begin = 0, end = 0;
  uint64_t speech_end = 0;  // frame: silence from here to `end`; 0: unknown
  bool operator==(const SpeechSegment&) const = default;
};

// Converts samples to frames: every frame below `n_frames` that a range overlaps. Adjacent ranges
// become one segment.
std::vector<SpeechSegment> frames_of(std::span<const SampleRange> ranges, uint64_t n_frames);

// The segments limited to clips: start, end, start, ... in seconds; a last clip without an end goes
// to frame `n_frames`. No clips: all segments.
std::vector<SpeechSegment> within_clips(std::vector<SpeechSegment> segments,
                                        std::span<const double> clips_s, uint64_t n_frames);

// Maps times in the joined segments to times in the recording.
class SpeechTimeline {
 public:
  explicit SpeechTimeline(std::vector<SpeechSegment> kept) : kept_(std::move(kept)) {}

  // The time in the recording of `time_s`. At the border of two segments, a start is in the later
  // one and an end in the earlier one. Without segments: 0.
  double start_s(double time_s) const { return map(time_s, true); }
  double end_s(double time_s) const { return map(time_s, false); }
  // Start and end of a text, which may cover several segments. Where it begins in the `pad_s` of
  // silence at the end of a segment, or ends in that at the start of one, it does not reach into
  // that segment: models date a text back to the end of the one before.
  std::pair<double, double> of_text(double from_s, double to_s, double pad_s) const;
  // Start and end of a word, which is in one segment. A word across a border includes the silence
  // before it. It is in the last segment whose speech it overlaps (speech begins and ends `pad_s`
  // inside a segment), otherwise in the segment with most of it.
  std::pair<double, double> within_one(double from_s, double to_s, double pad_s) const;

 private:
  double map(double time_s, bool is_start) const;

  std::vector<SpeechSegment> kept_;
};

}  // namespace vesper

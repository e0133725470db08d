// Speech segments: where somebody speaks in a recording.
//
// In: a probability of speech for every 32 ms (SileroVad). Out: segments of speech, in samples and
// in frames of the log-mel, and the mapping of times back to the recording when only the segments
// were kept. Called by vad/extract_speech.h and by the sessions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vesper {

// Names as in faster-whisper's VadOptions and silero-vad's get_speech_timestamps.
struct SpeechSettings {
  double threshold = 0.5;  // probability at which speech begins
  // Probability below which a silence within speech begins; absent: threshold - 0.15, at least
  // 0.01.
  std::optional<double> neg_threshold;
  double min_speech_duration_ms = 250;    // a shorter segment is dropped
  double min_silence_duration_ms = 2000;  // a shorter silence does not end a segment
  double speech_pad_ms = 400;             // added before and after each segment
  // A longer segment is cut, at its longest silence of more than 98 ms if it has one.
  double max_speech_duration_s = std::numeric_limits<double>::infinity();
};

// Samples at 16 kHz, begin < end.
struct SampleRange {
  uint64_t begin = 0, end = 0;
  bool operator==(const SampleRange&) const = default;
};

// The segments of speech of a recording of `n_samples`, in order, without overlap, from its
// probabilities (SileroVad). Throws Error(kUsage) for settings out of range.
std::vector<SampleRange> find_speech(std::span<const float> probabilities, uint64_t n_samples,
                                     const SpeechSettings& settings);

// Frames of the log-mel, 10 ms each, begin < end.
struct SpeechSegment {
  uint64_t begin = 0, end = 0;
  uint64_t speech_end = 0;  // frame: silence from here to `end`; 0: not known
  bool operator==(const SpeechSegment&) const = default;
};

// Every frame of the first `n_frames` that a range reaches into. Ranges that meet become one
// segment.
std::vector<SpeechSegment> frames_of(std::span<const SampleRange> ranges, uint64_t n_frames);

// Maps times within the kept segments, which lie one behind the other, to times of the recording.
class SpeechTimeline {
 public:
  explicit SpeechTimeline(std::vector<SpeechSegment> kept) : kept_(std::move(kept)) {}

  // The time in the recording of `time_s` within the kept segments. Where two segments meet, a
  // start belongs to the later one and an end to the earlier one. Without segments: 0.
  double start_s(double time_s) const { return map(time_s, true); }
  double end_s(double time_s) const { return map(time_s, false); }
  // Start and end of a word, which lies in one segment. A word that seems to cross a seam includes
  // the silence before it: it belongs to the last segment into whose speech it reaches (speech
  // begins and ends `pad_s` inside the segment), else to the segment that has most of it.
  std::pair<double, double> within_one(double from_s, double to_s, double pad_s) const;

 private:
  double map(double time_s, bool is_start) const;

  std::vector<SpeechSegment> kept_;
};

}  // namespace vesper

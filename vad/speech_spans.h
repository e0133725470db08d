// From probabilities to stretches of speech, and from times within the speech alone back to times
// of the recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vesper {

// A frame of log-mel: 10 ms at 16 kHz.
inline constexpr uint64_t kSamplesPerFrame = 160;

// Names as in faster-whisper's VadOptions and silero-vad's get_speech_timestamps.
struct SpeechSettings {
  double threshold = 0.5;  // probability from which on speech begins
  // Probability below which a silence within speech begins; absent: threshold - 0.15, at least
  // 0.01.
  std::optional<double> neg_threshold;
  double min_speech_duration_ms = 250;    // a shorter stretch is none
  double min_silence_duration_ms = 2000;  // a shorter silence does not end a stretch
  double speech_pad_ms = 400;             // added before and after each stretch
  // A longer stretch is cut, where there is one at its longest silence of more than 98 ms.
  double max_speech_duration_s = std::numeric_limits<double>::infinity();
};

// Samples at 16 kHz, begin < end.
struct SpeechSpan {
  uint64_t begin = 0, end = 0;
  bool operator==(const SpeechSpan&) const = default;
};

// The stretches of speech of a recording of `n_samples`, in order, none overlapping another, from
// its probabilities (SileroVad). Throws Error(kUsage) for settings that make no sense.
std::vector<SpeechSpan> find_speech(std::span<const float> probabilities, uint64_t n_samples,
                                    const SpeechSettings& settings);

// Mel frames of 10 ms, begin < end.
struct FrameSpan {
  uint64_t begin = 0, end = 0;
  bool operator==(const FrameSpan&) const = default;
};

// Every frame of the first `n_frames` that a stretch reaches into; stretches that meet become one.
std::vector<FrameSpan> frames_of(std::span<const SpeechSpan> spans, uint64_t n_frames);

// Times of a recording of which only some stretches were kept, one behind the other.
class SpeechTimeline {
 public:
  explicit SpeechTimeline(std::vector<FrameSpan> kept) : kept_(std::move(kept)) {}

  // The time in the recording of `time_s` within the kept stretches. Where two stretches meet, a
  // start belongs to the later one and an end to the earlier one. Without stretches: 0.
  double start_s(double time_s) const { return map(time_s, true); }
  double end_s(double time_s) const { return map(time_s, false); }
  // Start and end of what cannot go on over a silence, a word. One that seems to has the silence
  // before it as its beginning: of several kept stretches it is in the last into whose speech it
  // reaches, which begins and ends `pad_s` within the stretch; if it reaches into none, in the one
  // that has most of it.
  std::pair<double, double> within_one(double from_s, double to_s, double pad_s) const;

 private:
  double map(double time_s, bool is_start) const;

  std::vector<FrameSpan> kept_;
};

}  // namespace vesper

#include "vad/speech_segments.h"

#include <algorithm>
#include <cmath>

#include "audio/mel/mel.h"
#include "error/error.h"
#include "vad/silero_vad.h"

namespace vesper {
namespace {

constexpr double kSampleRate = 16000;
constexpr uint64_t kChunk = SileroVad::kChunkSamples;
// Too long a segment is cut at a silence longer than this.
constexpr double kCutSilenceMs = 98;
constexpr uint64_t kSamplesPerFrame = kMelHop;
constexpr double kLeastNegThreshold = 0.01;

double samples_of_ms(double ms) { return kSampleRate * ms / 1000; }

void require(bool condition, const char* what) {
  if (!condition) throw Error(ErrorKind::kUsage, std::string("voice activity: ") + what);
}

// Finds segments in successive probabilities, by the rules of silero-vad 6.2's
// get_speech_timestamps.
class SpeechFinder {
 public:
  SpeechFinder(const SpeechSettings& settings, uint64_t n_samples)
      : threshold_(settings.threshold),
        neg_threshold_(settings.neg_threshold.value_or(
            std::max(settings.threshold - kVadHysteresis, kLeastNegThreshold))),
        min_speech_(samples_of_ms(settings.min_speech_duration_ms)),
        min_silence_(samples_of_ms(settings.min_silence_duration_ms)),
        max_speech_(kSampleRate * settings.max_speech_duration_s - static_cast<double>(kChunk) -
                    2 * samples_of_ms(settings.speech_pad_ms)),
        n_samples_(n_samples) {}

  void take(uint64_t at, double probability) {
    const bool is_speech = probability >= threshold_;
    if (is_speech) {
      note_silence(at);
      if (!begin_) {
        begin_ = at;
        return;
      }
    }
    if (!begin_) return;
    if (static_cast<double>(at - *begin_) > max_speech_ && !cut(at)) return;
    if (probability < neg_threshold_) {
      if (!silence_) silence_ = at;
      if (static_cast<double>(at - *silence_) >= min_silence_) {
        end(*silence_);
        begin_.reset();
        forget_silences();
      }
    }
  }

  std::vector<SampleRange> finish() {
    if (begin_ && *begin_ < n_samples_) end(n_samples_);
    return std::move(ranges_);
  }

 private:
  void note_silence(uint64_t at) {
    if (silence_ && static_cast<double>(at - *silence_) > samples_of_ms(kCutSilenceMs)) {
      silences_.push_back({*silence_, at});
    }
    silence_.reset();
  }

  // Cuts a segment that is too long. Returns whether speech continues.
  bool cut(uint64_t at) {
    const auto shorter = [](const SampleRange& a, const SampleRange& b) {
      return a.end - a.begin < b.end - b.begin;
    };
    const auto longest = std::max_element(silences_.begin(), silences_.end(), shorter);
    const bool goes_on = longest != silences_.end();
    ranges_.push_back({*begin_, goes_on ? longest->begin : at});
    begin_ = goes_on ? std::optional(longest->end) : std::nullopt;
    forget_silences();
    return goes_on;
  }

  void end(uint64_t at) {
    if (static_cast<double>(at - *begin_) > min_speech_) ranges_.push_back({*begin_, at});
  }

  void forget_silences() {
    silence_.reset();
    silences_.clear();
  }

  double threshold_, neg_threshold_;
  double min_speech_, min_silence_, max_speech_;  // samples
  uint64_t n_samples_;
  std::optional<uint64_t> begin_;      // of the open segment
  std::optional<uint64_t> silence_;    // start of its current silence
  std::vector<SampleRange> silences_;  // its silences longer than kCutSilenceMs
  std::vector<SampleRange> ranges_;
};

// Extends each segment on both sides, by at most half the gap between two segments.
void pad(std::vector<SampleRange>& ranges, uint64_t padding, uint64_t n_samples) {
  if (ranges.empty()) return;
  ranges.front().begin -= std::min(ranges.front().begin, padding);
  for (size_t i = 0; i + 1 < ranges.size(); ++i) {
    const uint64_t gap = ranges[i + 1].begin - ranges[i].end;
    const uint64_t widen = gap < 2 * padding ? gap / 2 : padding;
    ranges[i].end += widen;
    ranges[i + 1].begin -= widen;
  }
  ranges.back().end = std::min(n_samples, ranges.back().end + padding);
}

}  // namespace

std::vector<SampleRange> find_speech(std::span<const float> probabilities, uint64_t n_samples,
                                     const SpeechSettings& settings) {
  require(settings.threshold > 0 && settings.threshold <= 1,
          "expected a threshold above 0 and up to 1");
  require(settings.min_speech_duration_ms >= 0 && settings.min_silence_duration_ms >= 0 &&
              settings.speech_pad_ms >= 0 && std::isfinite(settings.speech_pad_ms),
          "expected durations of 0 or more");
  require(settings.max_speech_duration_s > 0, "expected a longest segment above 0");
  require(!settings.neg_threshold || (*settings.neg_threshold >= 0 && *settings.neg_threshold <= 1),
          "expected a threshold of silence from 0 to 1");
  SpeechFinder finder(settings, n_samples);
  for (size_t i = 0; i < probabilities.size(); ++i) {
    finder.take(i * kChunk, static_cast<double>(probabilities[i]));
  }
  std::vector<SampleRange> ranges = finder.finish();
  // At most the whole recording, to fit an integer.
  const double padding =
      std::min(samples_of_ms(settings.speech_pad_ms), static_cast<double>(n_samples));
  pad(ranges, static_cast<uint64_t>(padding), n_samples);
  return ranges;
}

std::vector<SpeechSegment> frames_of(std::span<const SampleRange> ranges, uint64_t n_frames) {
  std::vector<SpeechSegment> frames;
  for (const SampleRange& range : ranges) {
    const uint64_t begin = range.begin / kSamplesPerFrame;
    const uint64_t end = std::min(n_frames, (range.end + kSamplesPerFrame - 1) / kSamplesPerFrame);
    if (begin >= end) continue;
    if (!frames.empty() && begin <= frames.back().end) {
      frames.back().end = end;
    } else {
      frames.push_back({begin, end});
    }
  }
  return frames;
}

std::vector<SpeechSegment> within_clips(std::vector<SpeechSegment> segments,
                                        std::span<const double> clips_s, uint64_t n_frames) {
  if (clips_s.empty()) return segments;
  const auto frame = [&](size_t i) {
    if (i >= clips_s.size()) return n_frames;
    const double at = std::min(clips_s[i] * kMelFramesPerSecond, static_cast<double>(n_frames));
    return static_cast<uint64_t>(std::llround(at));
  };
  std::vector<SpeechSegment> cut;
  for (size_t clip = 0; clip < clips_s.size(); clip += 2) {
    for (const SpeechSegment& segment : segments) {
      const SpeechSegment within{std::max(segment.begin, frame(clip)),
                                 std::min(segment.end, frame(clip + 1))};
      if (within.begin < within.end) cut.push_back(within);
    }
  }
  return cut;
}

double SpeechTimeline::map(double time_s, bool is_start) const {
  double before_s = 0;  // length of the segments so far
  double mapped_s = 0;
  for (const SpeechSegment& segment : kept_) {
    const double begin_s = static_cast<double>(segment.begin) / kMelFramesPerSecond;
    const double length_s = static_cast<double>(segment.end - segment.begin) / kMelFramesPerSecond;
    mapped_s = begin_s + std::clamp(time_s - before_s, 0.0, length_s);
    // Rounding: a start slightly before a border is at the border.
    constexpr double kSlack = 1e-6;
    const double seam_s = before_s + length_s;
    if (is_start ? time_s < seam_s - kSlack : time_s <= seam_s + kSlack) return mapped_s;
    before_s = seam_s;
  }
  return mapped_s;
}

std::pair<double, double> SpeechTimeline::of_text(double from_s, double to_s, double pad_s) const {
  double border_s = 0;
  for (const SpeechSegment& segment : kept_) {
    border_s += static_cast<double>(segment.end - segment.begin) / kMelFramesPerSecond;
    if (from_s >= border_s || to_s <= border_s) continue;
    if (from_s >= border_s - pad_s) {
      from_s = border_s;
    } else if (to_s <= border_s + pad_s) {
      to_s = border_s;
    }
  }
  return {start_s(from_s), end_s(to_s)};
}

std::pair<double, double> SpeechTimeline::within_one(double from_s, double to_s,
                                                     double pad_s) const {
  constexpr double kReachS = 0.05;
  double before_s = 0, most_s = 0;
  bool is_in_speech = false;
  std::pair<double, double> within{start_s(from_s), start_s(from_s)};
  for (const SpeechSegment& segment : kept_) {
    const double begin_s = static_cast<double>(segment.begin) / kMelFramesPerSecond;
    const double length_s = static_cast<double>(segment.end - segment.begin) / kMelFramesPerSecond;
    const double first_s = std::clamp(from_s - before_s, 0.0, length_s);
    const double last_s = std::clamp(to_s - before_s, 0.0, length_s);
    const bool reaches = std::min(last_s, length_s - pad_s) - std::max(first_s, pad_s) > kReachS;
    if (reaches || (!is_in_speech && last_s - first_s > most_s)) {
      is_in_speech = reaches;
      most_s = last_s - first_s;
      within = {begin_s + first_s, begin_s + last_s};
    }
    before_s += length_s;
  }
  return within;
}

}  // namespace vesper

#include "decoder/windows/attempts/hallucinations.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "audio/mel/mel.h"
#include "decoder/windows/window_segments.h"
#include "decoder/words/word_times.h"

namespace vesper {
namespace {

uint64_t frame_of(double seconds) {
  return static_cast<uint64_t>(std::max(0.0, std::nearbyint(seconds * kMelFramesPerSecond)));
}

// Anomaly of a word: 1 for an improbable one, plus its deviation from the usual durations.
double anomaly(const Word& word, const WindowPolicy& policy) {
  const double duration_s = word.end_s - word.start_s;
  double score = word.probability < policy.improbable_word_probability ? 1.0 : 0.0;
  score += std::max(0.0, policy.short_word_s - duration_s) * policy.short_word_weight;
  score += std::max(0.0, duration_s - policy.long_word_s);
  return score;
}

// The first segment from `first` on that has words, or null.
const Segment* next_with_words(const std::vector<Segment>& segments, size_t first) {
  for (size_t i = first; i < segments.size(); ++i) {
    if (!segments[i].words.empty()) return &segments[i];
  }
  return nullptr;
}

}  // namespace

bool is_anomalous(const Segment& segment, const WindowPolicy& policy) {
  // A text that is a substring of this is not a word.
  static const std::string marks = Punctuation{}.prepended + Punctuation{}.appended;
  constexpr double kSlack = 0.01;  // of rounding
  if (segment.words.empty()) return false;
  double score = 0;
  size_t n = 0;
  for (const Word& word : segment.words) {
    if (n == policy.anomalous_words) break;
    if (marks.find(word.text) != std::string::npos) continue;
    score += anomaly(word, policy);
    ++n;
  }
  return score >= policy.anomalous_score || score + kSlack >= static_cast<double>(n);
}

AfterWindow skip_hallucinations(std::vector<Segment>& segments, const WindowPlace& window,
                                uint64_t seek, bool to_the_end, double threshold_s,
                                const WindowPolicy& policy) {
  const double offset_s = static_cast<double>(window.seek) / kMelFramesPerSecond;
  const double window_end_s =
      static_cast<double>(window.seek + window.n_window) / kMelFramesPerSecond;
  const double content_end_s =
      static_cast<double>(window.seek + window.n_frames) / kMelFramesPerSecond;
  const double recording_s = static_cast<double>(window.n_content) / kMelFramesPerSecond;

  if (!to_the_end && !segments.empty()) {
    const double speech_end_s = end_of_speech_s(segments);
    if (speech_end_s > offset_s) {
      seek = window_end_s - speech_end_s > threshold_s ? frame_of(speech_end_s)
                                                       : window.seek + window.n_frames;
    }
  }
  const Segment* first = next_with_words(segments, 0);
  if (first && is_anomalous(*first, policy) && first->start_s - offset_s > threshold_s) {
    return {window.seek + frame_of(first->start_s - offset_s), true};
  }
  double last_end_s = window.last_speech_s;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    if (segment.words.empty()) continue;
    if (is_anomalous(segment, policy)) {
      const Segment* next = next_with_words(segments, i + 1);
      const double next_start_s = next ? next->words.front().start_s : content_end_s;
      const bool silence_before = segment.start_s - last_end_s > threshold_s ||
                                  segment.start_s < threshold_s ||
                                  segment.start_s - offset_s < policy.window_edge_s;
      const bool silence_after = next_start_s - segment.end_s > threshold_s ||
                                 (next && is_anomalous(*next, policy)) ||
                                 window_end_s - segment.end_s < policy.window_edge_s;
      if (silence_before && silence_after) {
        seek = frame_of(std::max(offset_s + 1, segment.start_s));
        if (recording_s - segment.end_s < threshold_s) seek = window.n_content;
        segments.resize(i);
        break;
      }
    }
    last_end_s = segment.end_s;
  }
  return {seek, false};
}

}  // namespace vesper

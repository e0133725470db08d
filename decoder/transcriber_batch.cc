// Stretches of a recording that do not depend on one another, several transcribed at once.
#include <algorithm>
#include <utility>

#include "decoder/speech_evidence.h"
#include "decoder/transcriber.h"
#include "decoder/window_segments.h"

namespace vesper {
namespace {

// Steps until the places are looked at again: far fewer than a window has tokens, so that few are
// taken for a place that waits.
constexpr uint32_t kStepsAtOnce = 4;

}  // namespace

class Transcriber::Batch {
 public:
  Batch(Transcriber& transcriber, const MelSpectrogram& mel, const DecodingSettings& settings,
        const std::function<void(const Segment&)>& on_segment,
        const std::function<void(double done_s, double total_s)>& on_progress)
      : transcriber_(transcriber),
        decoder_(transcriber.model_.decoder()),
        settings_(settings),
        on_segment_(on_segment),
        on_progress_(on_progress),
        recording_(transcriber.begin(mel, settings)),
        places_(decoder_.n_windows()) {}

  Transcript run(std::span<const MelSpan> spans) {
    for (const MelSpan& span : spans) {
      if (span.begin >= span.end) continue;
      Walk walk = transcriber_.walk_of(recording_, span.begin, span.end, stretches_.empty());
      walk.last_speech_s = static_cast<double>(span.begin) * kFrameSeconds;
      stretches_.push_back({std::move(walk), span.speech_end});
    }
    // While a language is asked for, a recording is walked over as if there were nothing else.
    for (Stretch& stretch : stretches_) {
      stretch.walk.language = recording_.transcript.language;
      while ((!recording_.language_is_found || recording_.is_mixed) && !stretch.is_done()) {
        decode_alone(stretch);
      }
    }
    while (!is_done()) {
      run_first_attempts();
      // With everything else at rest, since these take other sequences.
      for (Stretch* stretch : std::exchange(failed_, {})) decode_alone(*stretch);
    }
    Transcript& transcript = recording_.transcript;
    if (!recording_.language_is_found && !settings_.reference) {
      transcript.language.clear();
      transcript.language_probability = 0;
    }
    std::stable_sort(
        transcript.dropped.begin(), transcript.dropped.end(),
        [](const DroppedSpan& a, const DroppedSpan& b) { return a.start_s < b.start_s; });
    if (on_progress_) on_progress_(transcript.duration_s, transcript.duration_s);
    return std::move(transcript);
  }

 private:
  struct Stretch {
    Walk walk;
    uint64_t speech_end;                 // frames
    bool is_taken = false;               // by a place, or by the failures
    std::vector<Segment> segments = {};  // not handed on yet
    bool is_done() const { return walk.seek >= walk.end; }
  };

  bool is_done() const {
    return std::all_of(stretches_.begin(), stretches_.end(),
                       [](const Stretch& stretch) { return stretch.is_done(); });
  }

  // Decodes windows at the first temperature until there are none, or too many have failed.
  void run_first_attempts() {
    const Search search = search_of(settings_, settings_.temperatures.front());
    decoder_.begin(
        {.n_places = static_cast<uint32_t>(places_.size()),
         .n_candidates = search.n_candidates,
         .beam_size = search.max_finished > 0 ? search.n_candidates : 0,
         .has_penalties = search.repetition_penalty != 1 || search.no_repeat_ngram_size > 0});
    for (uint32_t place = 0; place < places_.size(); ++place) fill(place, search);
    while (n_running_ > 0) {
      for (const uint32_t place : decoder_.advance(kStepsAtOnce)) {
        Stretch& stretch = *std::exchange(places_[place], nullptr);
        --n_running_;
        take(stretch, place);
        fill(place, search);
      }
    }
  }

  // Starts the next window of the first stretch that waits.
  void fill(uint32_t place, const Search& search) {
    // A fifth of the places empty costs less than a rest for each failure.
    if (failed_.size() * 5 > places_.size()) return;
    for (Stretch& stretch : stretches_) {
      while (!stretch.is_taken && !stretch.is_done()) {
        if (!transcriber_.encode_window(recording_, stretch.walk, place)) continue;
        DecodeTask task = transcriber_.task_of_window(recording_, stretch.walk);
        task.window = place;
        task.speech_end = speech_end_in_window(stretch);
        task.seed = attempt_seed(window_seed(settings_, stretch.walk.seek), 0);
        decoder_.start(place, task, search);
        stretch.is_taken = true;
        places_[place] = &stretch;
        ++n_running_;
        return;
      }
    }
  }

  // The earliest timestamp that the next window may end with. A model often leaves out the last
  // sentence of a window, as if the end of the window cut it; here nothing is cut.
  uint32_t speech_end_in_window(const Stretch& stretch) const {
    // Timestamps are inexact, and so is where speech ends.
    constexpr uint64_t kSlack = 100;
    const uint64_t begin = stretch.walk.seek + kSlack;
    if (settings_.reference || stretch.speech_end <= begin ||
        stretch.walk.end - stretch.walk.seek > transcriber_.model_.n_frames()) {
      return 0;
    }
    return static_cast<uint32_t>((stretch.speech_end - begin) / kFramesPerTimestamp);
  }

  // Takes what the first attempt at a stretch's window has found, if there is no doubt about it.
  void take(Stretch& stretch, uint32_t place) {
    Decoded decoded =
        transcriber_.judge(decoder_.result(place), settings_.temperatures.front(), settings_);
    if (decoded.is_silent || has_failed(decoded.evidence, settings_)) {
      failed_.push_back(&stretch);
      return;
    }
    finish(stretch, decoded, place);
  }

  // Decodes a stretch's next window with every means.
  void decode_alone(Stretch& stretch) {
    stretch.is_taken = true;
    if (!transcriber_.encode_window(recording_, stretch.walk, 0)) {
      stretch.is_taken = false;
      return;
    }
    const DecodeTask task = transcriber_.task_of_window(recording_, stretch.walk);
    finish(stretch, transcriber_.decode_window(recording_, stretch.walk, task), 0);
  }

  void finish(Stretch& stretch, const Decoded& decoded, uint32_t place) {
    for (Segment& segment : transcriber_.finish_window(recording_, stretch.walk, decoded, place)) {
      stretch.segments.push_back(std::move(segment));
    }
    stretch.is_taken = false;
    emit();
  }

  // Hands on what nothing can come before any more.
  void emit() {
    for (; n_handed_on_ < stretches_.size(); ++n_handed_on_) {
      Stretch& stretch = stretches_[n_handed_on_];
      for (Segment& segment : std::exchange(stretch.segments, {})) {
        transcriber_.hand_on(recording_, std::move(segment), on_segment_);
      }
      if (!stretch.is_done()) break;
    }
    if (!on_progress_) return;
    uint64_t n_left = 0;
    for (const Stretch& stretch : stretches_) {
      n_left += stretch.walk.end - std::min(stretch.walk.seek, stretch.walk.end);
    }
    const double total_s = recording_.transcript.duration_s;
    on_progress_(total_s - static_cast<double>(n_left) * kFrameSeconds, total_s);
  }

  Transcriber& transcriber_;
  WhisperDecoder& decoder_;
  const DecodingSettings& settings_;
  const std::function<void(const Segment&)>& on_segment_;
  const std::function<void(double, double)>& on_progress_;
  Recording recording_;
  std::vector<Stretch> stretches_;  // none comes or goes while others point to it
  std::vector<Stretch*> places_;    // null: free
  std::vector<Stretch*> failed_;    // at the first attempt
  uint32_t n_running_ = 0;
  size_t n_handed_on_ = 0;  // stretches of which nothing more is to come
};

Transcript Transcriber::transcribe_stretches(
    const MelSpectrogram& mel, std::span<const MelSpan> stretches, const DecodingSettings& settings,
    const std::function<void(const Segment&)>& on_segment,
    const std::function<void(double done_s, double total_s)>& on_progress) {
  return Batch(*this, mel, settings, on_segment, on_progress).run(stretches);
}

}  // namespace vesper

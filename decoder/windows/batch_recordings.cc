#include "decoder/windows/batch_recordings.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace vesper {
namespace {

void report_progress(const BatchRecordings::Open& open) {
  if (!open.source.on_progress) return;
  const double total_s = open.recording.state.transcript.duration_s;
  const double left_s = static_cast<double>(open.n_frames_left()) * kFrameSeconds;
  open.source.on_progress(total_s - left_s, total_s);
}

// Returns whether all segments of the recording are emitted.
bool emit_segments(BatchRecordings::Open& open) {
  for (; open.n_emitted < open.tracks.size(); ++open.n_emitted) {
    BatchRecordings::Track& track = open.tracks[open.n_emitted];
    for (Segment& segment : std::exchange(track.segments, {})) {
      open.windows.emit_segment(open.recording.state.transcript, std::move(segment),
                                open.source.on_segment);
    }
    if (!track.cursor.is_at_end()) break;
  }
  report_progress(open);
  return open.n_emitted == open.tracks.size();
}

void end(BatchRecordings::Open& open) {
  Transcript transcript = open.windows.finish(std::move(open.recording.state));
  if (open.source.on_end) open.source.on_end(std::move(transcript));
}

}  // namespace

BatchRecordings::Open::Open(const WindowDecoder& of_batch, BatchRecording from)
    : source(std::move(from)),
      windows(source.windows ? *source.windows : of_batch),
      recording(windows, *source.mel) {
  recording.state.speech = source.speech;
  for (const SpeechSegment& part : source.parts) {
    if (part.begin >= part.end) continue;
    WindowCursor cursor = windows.cursor(recording.state, part.begin, part.end);
    cursor.is_first = tracks.empty();
    cursor.last_speech_s = static_cast<double>(part.begin) * kFrameSeconds;
    tracks.push_back({std::move(cursor), part.speech_end});
  }
}

bool BatchRecordings::Open::is_taken() const {
  return std::ranges::any_of(tracks, &Track::is_taken);
}

bool BatchRecordings::Open::is_waiting() const {
  return std::ranges::any_of(tracks, &Track::is_waiting);
}

bool BatchRecordings::Open::is_done() const {
  return std::ranges::all_of(tracks, [](const Track& track) { return track.cursor.is_at_end(); });
}

bool BatchRecordings::Open::needs_language() const {
  return !recording.state.language_is_found && !windows.follows_languages();
}

uint64_t BatchRecordings::Open::n_frames_left() const {
  uint64_t n = 0;
  for (const Track& track : tracks) {
    n += track.cursor.end - std::min(track.cursor.seek, track.cursor.end);
  }
  return n;
}

BatchRecordings::BatchRecordings(const WindowDecoder& windows, const NextRecording& next,
                                 const BatchOptions& options, size_t n_most)
    : windows_(windows), next_(next), options_(options), n_most_(n_most) {}

bool BatchRecordings::should_ask_again() { return std::exchange(should_ask_again_, false); }

void BatchRecordings::open_first() {
  if (!has_waiting(1)) open_next(/*may_wait=*/true);
}

void BatchRecordings::open_ready(size_t n_windows) {
  while ((!options_.in_order || !has_waiting(n_windows)) && open_beside(/*may_wait=*/false)) {
  }
}

bool BatchRecordings::open_beside(bool may_wait) {
  // Detecting the language in several windows uses the whole decoder.
  const DecodingSettings& settings = windows_.settings();
  const bool needs_decoder =
      settings.language == "auto" && settings.language_detection_segments != 1;
  return !needs_decoder && open_next(may_wait);
}

// Whether at least n windows can start.
bool BatchRecordings::has_waiting(size_t n) const {
  for (const std::unique_ptr<Open>& open : open_) {
    for (const Track& track : open->tracks) {
      if (track.is_waiting() && --n == 0) return true;
    }
  }
  return false;
}

bool BatchRecordings::open_next(bool may_wait) {
  if (has_ended_ && options_.in_order) return false;
  if (open_.size() >= n_most_) return false;
  if (!may_wait && options_.is_ready && !options_.is_ready()) {
    should_ask_again_ = true;
    return false;
  }
  std::optional<BatchRecording> source = next_();
  has_ended_ = !source;
  if (!source) {
    // Another one may come while windows are decoded.
    should_ask_again_ = !options_.in_order;
    return false;
  }
  open_.push_back(std::make_unique<Open>(windows_, std::move(*source)));
  emit();
  return true;
}

std::vector<BatchRecordings::Open*> BatchRecordings::in_turn(
    const std::function<size_t(const Open&)>& n_running) const {
  std::vector<Open*> all;
  for (const std::unique_ptr<Open>& open : open_) all.push_back(open.get());
  if (options_.in_order) return all;
  const auto turn = [&](const Open* open) {
    return std::tuple(n_running(*open), open->n_frames_left());
  };
  std::ranges::stable_sort(all, {}, turn);
  return all;
}

void BatchRecordings::emit() {
  for (size_t i = 0; i < open_.size();) {
    if (emit_segments(*open_[i])) {
      end(*open_[i]);
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (options_.in_order) {
      return;
    } else {
      ++i;
    }
  }
}

}  // namespace vesper

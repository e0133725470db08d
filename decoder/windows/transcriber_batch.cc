// Stretches that do not depend on one another, of one recording or several, transcribed together.
#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "decoder/windows/transcriber.h"
#include "decoder/windows/window_segments.h"

namespace vesper {
namespace {

// Steps until the places are looked at again: far fewer than a window has tokens, so that few are
// taken for a place that waits.
constexpr uint32_t kStepsAtOnce = 4;
// Recordings for each place that may be open or wait for those before them.
constexpr size_t kRecordingsPerPlace = 4;

}  // namespace

class Transcriber::Batch {
 public:
  Batch(Transcriber& transcriber, const DecodingSettings& settings, const NextRecording& next)
      : transcriber_(transcriber),
        decoder_(transcriber.model_.decoder()),
        settings_(settings),
        next_(next),
        search_(search_of(settings, settings.temperatures.front())),
        places_(decoder_.n_windows()) {}

  void run() {
    do {
      run_first_attempts();
      // With everything else at rest, since these take other sequences.
      for (const Taken& taken : std::exchange(failed_, {})) decode_alone(taken);
    } while (!has_ended_ || !open_.empty());
  }

 private:
  struct Stretch {
    Walk walk;
    uint64_t speech_end;                 // frames
    bool is_taken = false;               // by a place, or by the failures
    std::vector<Segment> segments = {};  // not handed on yet
    bool is_done() const { return walk.seek >= walk.end; }
  };

  struct Open {
    BatchRecording source;
    Recording recording;
    std::vector<Stretch> stretches = {};  // none comes or goes while others point to it
    size_t n_handed_on = 0;               // stretches of which nothing more is to come
    bool has_guessed_wrong = false;       // what it is spoken in

    bool asks_for_language() const { return !recording.language_is_found && !recording.is_mixed; }
    bool is_taken() const { return std::ranges::any_of(stretches, &Stretch::is_taken); }
    bool is_done() const { return std::ranges::all_of(stretches, &Stretch::is_done); }
  };
  struct Taken {
    Open* of = nullptr;
    Stretch* stretch = nullptr;
  };
  struct Place {
    Taken taken;  // of null: what is decoded here is of no use any more
    bool is_running = false;
    // In the language that the window said which tells it, if there turns out to be speech in that.
    bool is_guess = false;
    DecodeTask task = {};  // of the window that was encoded to it
    bool is_free() const { return !is_running && taken.of == nullptr; }
  };

  // Decodes windows at the first temperature until there are none, or too many have failed.
  void run_first_attempts() {
    const BatchShape shape{
        .n_places = static_cast<uint32_t>(places_.size()),
        .n_candidates = search_.n_candidates,
        .beam_size = search_.max_finished > 0 ? search_.n_candidates : 0,
        .has_penalties = search_.repetition_penalty != 1 || search_.no_repeat_ngram_size > 0};
    // A recording that comes may ask for its language, at rest.
    if (n_waiting() == 0) open_next();
    decoder_.begin(shape);
    fill_places();
    while (n_running_ > 0) {
      const std::vector<uint32_t> ended = decoder_.advance(kStepsAtOnce);
      for (const uint32_t place : ended) {
        places_[place].is_running = false;
        --n_running_;
        if (!places_[place].is_guess) take(place);
      }
      settle_guesses();
      // Not only those: with a window that tells the language many others need wait no more.
      if (!ended.empty()) fill_places();
    }
  }

  size_t n_waiting() const {
    return static_cast<size_t>(
        std::ranges::count_if(open_, [](const auto& open) { return !open->is_done(); }));
  }

  // Takes the next recording, if there is one.
  bool open_next() {
    if (has_ended_ || open_.size() >= kRecordingsPerPlace * places_.size()) return false;
    std::optional<BatchRecording> source = next_();
    if (!source) {
      has_ended_ = true;
      return false;
    }
    const MelSpectrogram& mel = *source->mel;
    open_.push_back(
        std::make_unique<Open>(Open{std::move(*source), transcriber_.begin(mel, settings_)}));
    Open& open = *open_.back();
    for (const SpeechSegment& span : open.source.stretches) {
      if (span.begin >= span.end) continue;
      Walk walk =
          transcriber_.walk_of(open.recording, span.begin, span.end, open.stretches.empty());
      walk.last_speech_s = static_cast<double>(span.begin) * kFrameSeconds;
      open.stretches.push_back({std::move(walk), span.speech_end});
    }
    emit();
    return true;
  }

  void fill_places() {
    for (uint32_t place = 0; place < places_.size(); ++place) {
      if (places_[place].is_free()) fill(place);
    }
  }

  // Starts the next window of the first stretch that waits, if it need not be decoded at rest.
  void fill(uint32_t place) {
    // A fifth of the places empty costs less than a rest for each failure.
    if (failed_.size() * 5 > places_.size()) return;
    do {
      for (const std::unique_ptr<Open>& open : open_) {
        if (start_window(*open, place)) return;
      }
      emit();
      // Finding a language in several windows takes the decoder for itself.
    } while (!(settings_.language == "auto" && settings_.language_detection_segments > 1) &&
             open_next());
  }

  bool start_window(Open& open, uint32_t place) {
    bool is_guess = false;
    if (open.is_taken()) {
      // Walked over as if there were nothing else.
      if (open.recording.is_mixed) return false;
      is_guess = open.asks_for_language();
      if (is_guess && !may_guess_language(open)) return false;
    }
    for (Stretch& stretch : open.stretches) {
      if (open.recording.is_mixed && !stretch.is_done()) {
        // Where languages change is found at rest.
        stretch.is_taken = true;
        failed_.push_back({&open, &stretch});
        return true;
      }
      while (!stretch.is_taken && !stretch.is_done()) {
        if (!encode(open, stretch, place)) continue;
        DecodeTask task = is_guess
                              ? transcriber_.task_for(stretch.walk.history, stretch.walk.language,
                                                      stretch.walk.is_first, settings_)
                              : transcriber_.task_of_window(open.recording, stretch.walk, place);
        task.window = place;
        task.speech_end = speech_end_in_window(stretch);
        task.seed = attempt_seed(window_seed(settings_, stretch.walk.seek), 0);
        stretch.is_taken = true;
        places_[place] = {{&open, &stretch}, false, is_guess, std::move(task)};
        start(place);
        return true;
      }
    }
    return false;
  }

  // Starts the task of a place.
  void start(uint32_t place) {
    decoder_.start(place, places_[place].task, search_);
    places_[place].is_running = true;
    ++n_running_;
  }

  // Whether a window of the recording is being decoded that tells its language.
  bool is_asking(const Open& open) const {
    return std::ranges::any_of(places_, [&](const Place& place) {
      return place.taken.of == &open && place.is_running && !place.is_guess;
    });
  }

  // Whether other windows need not wait for the one that tells the language: the model is sure of
  // it, so that it most likely hears speech there.
  bool may_guess_language(const Open& open) const {
    return !open.has_guessed_wrong && is_asking(open) &&
           open.recording.transcript.language_probability >= settings_.language_detection_threshold;
  }

  // Takes what was found in a guessed language that is the right one. What was guessed after a
  // window without speech is forgotten, as if it had never begun.
  void settle_guesses() {
    for (uint32_t i = 0; i < places_.size(); ++i) {
      Place& place = places_[i];
      if (!place.is_guess || place.taken.of == nullptr) continue;
      Open& open = *place.taken.of;
      if (!open.asks_for_language()) {
        place.is_guess = false;
        if (!place.is_running) take(i);
      } else if (!is_asking(open)) {
        open.has_guessed_wrong = true;
        place.taken.stretch->is_taken = false;
        place.taken.stretch->walk.language.clear();
        place.taken = {};
        place.is_guess = false;
      }
    }
  }

  bool encode(Open& open, Stretch& stretch, uint32_t place) {
    if (stretch.walk.language.empty()) stretch.walk.language = open.recording.transcript.language;
    return transcriber_.encode_window(open.recording, stretch.walk, place);
  }

  // The earliest timestamp that the next window may end with. A model often leaves out the last
  // sentence of a window, as if the end of the window cut it; here nothing is cut.
  uint32_t speech_end_in_window(const Stretch& stretch) const {
    // Timestamps are inexact, and so is where speech ends.
    const uint64_t begin = stretch.walk.seek + settings_.policy.speech_end_slack_frames;
    if (!settings_.policy.hold_until_speech_ends || stretch.speech_end <= begin ||
        stretch.walk.end - stretch.walk.seek > transcriber_.model_.n_frames()) {
      return 0;
    }
    return static_cast<uint32_t>((stretch.speech_end - begin) / kFramesPerTimestamp);
  }

  // Takes what an attempt at a stretch's window has found, if there is no doubt about it.
  void take(uint32_t index) {
    Place& place = places_[index];
    if (place.taken.of == nullptr) return;
    const Decoded decoded =
        transcriber_.judge(decoder_.result(index), settings_.temperatures.front(), settings_);
    const bool has_found = passes(decoded, settings_);
    // Most often a window fails by having to go on to where its speech ends.
    if (!has_found && std::exchange(place.task.speech_end, 0) > 0) return start(index);
    const Taken taken = std::exchange(place.taken, {});
    if (has_found) {
      finish(taken, decoded, index);
    } else {
      failed_.push_back(taken);
    }
  }

  // Decodes a stretch's next window with every means.
  void decode_alone(const Taken& taken) {
    Recording& recording = taken.of->recording;
    Walk& walk = taken.stretch->walk;
    if (!encode(*taken.of, *taken.stretch, 0)) {
      taken.stretch->is_taken = false;
      return;
    }
    const DecodeTask task = transcriber_.task_of_window(recording, walk);
    finish(taken, transcriber_.decode_window(recording, walk, task), 0);
  }

  void finish(const Taken& taken, const Decoded& decoded, uint32_t place) {
    Stretch& stretch = *taken.stretch;
    for (Segment& segment :
         transcriber_.finish_window(taken.of->recording, stretch.walk, decoded, place)) {
      stretch.segments.push_back(std::move(segment));
    }
    stretch.is_taken = false;
    if (taken.of->is_done()) taken.of->source.mel.reset();
    emit();
  }

  // Hands on what nothing can come before any more.
  void emit() {
    for (; !open_.empty(); open_.pop_front()) {
      Open& open = *open_.front();
      for (; open.n_handed_on < open.stretches.size(); ++open.n_handed_on) {
        Stretch& stretch = open.stretches[open.n_handed_on];
        for (Segment& segment : std::exchange(stretch.segments, {})) {
          transcriber_.hand_on(open.recording, std::move(segment), open.source.on_segment);
        }
        if (!stretch.is_done()) break;
      }
      report_progress(open);
      if (open.n_handed_on < open.stretches.size()) return;
      end(open);
    }
  }

  static void report_progress(const Open& open) {
    if (!open.source.on_progress) return;
    uint64_t n_left = 0;
    for (const Stretch& stretch : open.stretches) {
      n_left += stretch.walk.end - std::min(stretch.walk.seek, stretch.walk.end);
    }
    const double total_s = open.recording.transcript.duration_s;
    open.source.on_progress(total_s - static_cast<double>(n_left) * kFrameSeconds, total_s);
  }

  void end(Open& open) const {
    Transcript& transcript = open.recording.transcript;
    if (!open.recording.language_is_found && settings_.policy.require_speech_for_language) {
      transcript.language.clear();
      transcript.language_probability = 0;
    }
    std::ranges::stable_sort(transcript.dropped, {}, &DroppedSpan::start_s);
    if (open.source.on_end) open.source.on_end(std::move(transcript));
  }

  Transcriber& transcriber_;
  WhisperDecoder& decoder_;
  const DecodingSettings& settings_;
  const NextRecording& next_;
  const Search search_;                     // of first attempts
  bool has_ended_ = false;                  // next_ gave all
  std::deque<std::unique_ptr<Open>> open_;  // in order
  std::vector<Place> places_;
  std::vector<Taken> failed_;  // at the first attempt, or to be decoded at rest
  uint32_t n_running_ = 0;
};

void Transcriber::transcribe_batch(const DecodingSettings& settings, const NextRecording& next) {
  Batch(*this, settings, next).run();
}

Transcript Transcriber::transcribe_stretches(
    const MelSpectrogram& mel, std::span<const SpeechSegment> stretches,
    const DecodingSettings& settings, const std::function<void(const Segment&)>& on_segment,
    const std::function<void(double done_s, double total_s)>& on_progress) {
  Transcript transcript;
  bool is_given = false;
  transcribe_batch(settings, [&]() -> std::optional<BatchRecording> {
    if (std::exchange(is_given, true)) return std::nullopt;
    return BatchRecording{.mel = {std::shared_ptr<const void>(), &mel},
                          .stretches = {stretches.begin(), stretches.end()},
                          .on_segment = on_segment,
                          .on_progress = on_progress,
                          .on_end = [&](Transcript whole) { transcript = std::move(whole); }};
  });
  return transcript;
}

}  // namespace vesper

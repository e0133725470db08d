#include "decoder/windows/batch_transcriber.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "decoder/windows/batch_recordings.h"
#include "error/tasks.h"

namespace vesper {
namespace {

// Steps between checks of the slots: far fewer than the tokens of a window, so that a finished slot
// waits briefly.
constexpr uint32_t kStepsAtOnce = 4;
// Recordings per slot that may be open or wait for earlier ones.
constexpr size_t kRecordingsPerSlot = 4;

class Batch {
 public:
  Batch(WhisperModel& model, const DecodingSettings& settings, const NextRecording& next,
        const BatchOptions& options)
      : windows_(model, settings),
        decoder_(model.decoder()),
        settings_(settings),
        options_(options),
        search_(search_of(settings, settings.temperatures.front())),
        audio_(model.n_encoded(), windows_.audio_window()),
        slots_(decoder_.n_slots()),
        recordings_(windows_, next, options, kRecordingsPerSlot * slots_.size()) {
    for (uint32_t i = 0; i < decoder_.n_windows(); ++i) free_windows_.push_back(i);
  }

  void run() {
    do {
      run_first_attempts();
      // Only while nothing runs: these use other sequences of the decoder.
      run_further_attempts();
      for (const Taken& taken : std::exchange(alone_, {})) decode_alone(taken);
    } while (!recordings_.is_done());
  }

 private:
  using Open = BatchRecordings::Open;
  using Track = BatchRecordings::Track;

  struct Taken {
    Open* of = nullptr;
    Track* track = nullptr;
  };
  // A window with its attempts so far. It stays encoded.
  struct Tried {
    Taken taken;
    DecodeTask task;
    WindowAttempts attempts;
  };
  // A window that has text, before its words are timed.
  struct Ended {
    Taken taken;
    CutWindow cut;
    uint32_t window;  // index
  };
  struct Slot {
    Taken taken;  // null: the result of this slot is not needed
    bool is_running = false;
    // In the language of a running window that may turn out to have no speech.
    bool is_guess = false;
    DecodeTask task = {};
    bool is_free() const { return !is_running && taken.of == nullptr; }
  };

  // Decodes windows at the first temperature until there are none, or too many have failed.
  void run_first_attempts() {
    recordings_.open_first();
    decoder_.begin(search_.shape(static_cast<uint32_t>(slots_.size())), options_.in_order);
    fill_slots();
    while (n_running_ > 0) {
      report_round(n_running_);
      const std::span<const uint32_t> ended = decoder_.advance(kStepsAtOnce);
      for (const uint32_t slot : ended) {
        slots_[slot].is_running = false;
        --n_running_;
        if (!slots_[slot].is_guess) take(slot);
      }
      resolve_guesses();
      finish_windows();
      // All slots: after the window that decides the language, many others can start.
      if (!ended.empty() || recordings_.should_ask_again()) fill_slots();
    }
  }

  // Decodes the failed windows together at the other temperatures.
  void run_further_attempts() {
    size_t n = 0;
    for (size_t i = 1; i < settings_.temperatures.size() && !failed_.empty(); i += n) {
      std::vector<Tried> failed = std::exchange(failed_, {});
      n = attempts_at_once(i, failed.size());
      const size_t n_most = slots_.size() / n;
      for (size_t first = 0; first < failed.size(); first += n_most) {
        try_again(std::span(failed).subspan(first, std::min(n_most, failed.size() - first)), i, n);
      }
    }
    for (Tried& window : std::exchange(failed_, {})) end(std::move(window));
    finish_windows();
  }

  // Attempts from this one on for which the slots have room.
  size_t attempts_at_once(size_t attempt, size_t n_windows) const {
    if (!windows_.model().device().info().policy.sequences_are_cheap) return 1;
    const auto shape = [&](double temperature) {
      return search_of(settings_, temperature).shape(1);
    };
    const std::span left = std::span(settings_.temperatures).subspan(attempt);
    const auto other = std::ranges::find_if(
        left, [&](double temperature) { return shape(temperature) != shape(left.front()); });
    return std::clamp<size_t>(slots_.size() / n_windows, 1,
                              static_cast<size_t>(other - left.begin()));
  }

  // The next `n` attempts at failed windows, at most one attempt for each slot. One that succeeds
  // decides its window, and those after it are not needed.
  void try_again(std::span<Tried> windows, size_t attempt, size_t n) {
    const std::span temperatures = std::span(settings_.temperatures).subspan(attempt, n);
    decoder_.begin(windows.size() * n, search_of(settings_, temperatures.front()));
    uint32_t slot = 0;
    for (Tried& window : windows) {
      const uint32_t seed =
          window_seed(window.taken.of->windows.settings().seed, window.taken.track->cursor.seek);
      for (size_t i = 0; i < n; ++i) {
        window.task.seed = attempt_seed(seed, attempt + i);
        decoder_.start(slot++, window.task, search_of(settings_, temperatures[i]));
      }
    }
    report_round(windows.size());
    std::vector<bool> has_ended(slot), is_decided(windows.size());
    std::vector<size_t> n_taken(windows.size());  // attempts of each window
    const auto is_done = [&](size_t w) { return is_decided[w] || n_taken[w] == n; };
    for (size_t n_done = 0; n_done < windows.size();) {
      for (const uint32_t ended : decoder_.advance(kStepsAtOnce)) has_ended[ended] = true;
      n_done = 0;
      for (size_t w = 0; w < windows.size(); ++w) {
        for (; !is_done(w) && has_ended[w * n + n_taken[w]]; ++n_taken[w]) {
          DecodeResult result = decoder_.result(static_cast<uint32_t>(w * n + n_taken[w]));
          is_decided[w] = windows[w].attempts.take(
              judge(std::move(result), temperatures[n_taken[w]], windows[w].taken));
        }
        n_done += is_done(w);
      }
    }
    for (size_t w = 0; w < windows.size(); ++w) settle(std::move(windows[w]), is_decided[w]);
    finish_windows();
  }

  // Ends a window that its last attempt has decided; otherwise it needs another one.
  void settle(Tried window, bool is_decided) {
    if (is_decided) {
      end(std::move(window));
    } else {
      failed_.push_back(std::move(window));
    }
  }

  WindowResult judge(DecodeResult result, double temperature, const Taken& taken) const {
    const WindowDecoder& windows = taken.of->windows;
    return windows.judge(std::move(result), temperature,
                         windows.has_speech(taken.of->recording.state, taken.track->cursor));
  }

  // Ends a window with its best attempt.
  void end(Tried window) {
    const Taken& taken = window.taken;
    ended_.push_back(
        {taken,
         taken.of->windows.cut(taken.of->recording.state, taken.track->cursor,
                               std::move(window.attempts).result(), window.task.window),
         window.task.window});
  }

  void report_round(size_t n_windows) const {
    if (options_.on_round) options_.on_round(static_cast<uint32_t>(n_windows));
  }

  void fill_slots() {
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
      // What cannot start in one slot cannot start in another.
      if (slots_[slot].is_free() && !fill(slot)) return;
    }
  }

  // Starts the next window of the first waiting track that can run beside others. Returns false if
  // there is none.
  bool fill(uint32_t slot) {
    // A fifth of the slots idle costs less than interrupting the batch for each failure. But a
    // recording must not wait until the others end.
    const size_t n_interrupting = options_.in_order ? slots_.size() / 5 + 1 : 1;
    if (failed_.size() + alone_.size() >= n_interrupting) return false;
    // Windows of several recordings are encoded together.
    recordings_.open_ready(audio_.size());
    do {
      for (Open* open : recordings_.in_turn([&](const Open& of) { return n_running(of); })) {
        if (start_window(*open, slot)) return true;
      }
      recordings_.emit();
      // Failed windows may have all places of encoded windows.
    } while (!free_windows_.empty() && recordings_.open_beside(/*may_wait=*/n_running_ == 0));
    return false;
  }

  size_t n_running(const Open& open) const {
    return static_cast<size_t>(std::ranges::count_if(
        slots_, [&](const Slot& slot) { return slot.is_running && slot.taken.of == &open; }));
  }

  bool start_window(Open& open, uint32_t slot) {
    if (!open.is_waiting()) return false;
    if (open.source.is_cancelled && open.source.is_cancelled()) {
      drop_windows(open);
      return false;
    }
    const WindowDecoder& windows = open.windows;
    bool is_guess = false;
    if (open.is_taken()) {
      // Sequential windows.
      if (windows.follows_languages()) return false;
      is_guess = open.needs_language();
      if (is_guess && !may_guess_language(open)) return false;
    }
    for (Track& track : open.tracks) {
      if (windows.follows_languages() && !track.cursor.is_at_end()) {
        // Finding language changes uses the whole decoder.
        track.is_taken = true;
        alone_.push_back({&open, &track});
        return true;
      }
      while (!track.is_taken && !track.cursor.is_at_end()) {
        if (!track.encoded && free_windows_.empty()) {
          // The first window with speech decides the language.
          if (open.needs_language()) return false;
          break;
        }
        if (!encode(open, track)) continue;
        const uint32_t window = std::exchange(track.encoded, {}).value();
        set_language(open, track);
        if (!is_guess) windows.detect_language(open.recording.state, track.cursor, slot, window);
        DecodeTask task = windows.task(track.cursor);
        task.window = window;
        task.speech_end = speech_end_in_window(windows, track);
        task.seed = attempt_seed(window_seed(windows.settings().seed, track.cursor.seek), 0);
        track.is_taken = true;
        slots_[slot] = {.taken = {&open, &track}, .is_guess = is_guess, .task = std::move(task)};
        start(slot);
        return true;
      }
    }
    return false;
  }

  // Ends the tracks of a recording that do not run.
  void drop_windows(Open& open) {
    for (Track& track : open.tracks) {
      if (track.is_taken) continue;
      track.cursor.seek = track.cursor.end;
      if (track.encoded) free_windows_.push_back(*std::exchange(track.encoded, std::nullopt));
    }
    if (open.is_done()) open.source.mel.reset();
  }

  // Starts the task of a slot.
  void start(uint32_t slot) {
    decoder_.start(slot, slots_[slot].task, search_);
    slots_[slot].is_running = true;
    ++n_running_;
  }

  // Whether a running window of the recording decides its language.
  bool is_detecting_language(const Open& open) const {
    return std::ranges::any_of(slots_, [&](const Slot& slot) {
      return slot.taken.of == &open && slot.is_running && !slot.is_guess;
    });
  }

  // Whether other windows may start in the language of the running window that decides it: the
  // model is sure of the language, so there is most likely speech.
  bool may_guess_language(const Open& open) const {
    return !open.has_guessed_wrong && is_detecting_language(open) &&
           open.recording.state.transcript.language_probability >=
               open.windows.settings().language_detection_threshold;
  }

  // Takes the results of correct language guesses. If the deciding window had no speech, its
  // guesses are decoded again.
  void resolve_guesses() {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (!slot.is_guess || slot.taken.of == nullptr) continue;
      Open& open = *slot.taken.of;
      if (!open.needs_language()) {
        slot.is_guess = false;
        if (!slot.is_running) take(i);
      } else if (!is_detecting_language(open)) {
        open.has_guessed_wrong = true;
        slot.taken.track->is_taken = false;
        slot.taken.track->cursor.language.clear();
        slot.taken = {};
        free_windows_.push_back(slot.task.window);
        slot.is_guess = false;
      }
    }
  }

  static void set_language(const Open& open, Track& track) {
    if (track.cursor.language.empty())
      track.cursor.language = open.recording.state.transcript.language;
  }

  // Encodes the next window of a track unless it is encoded, and at once those of other waiting
  // tracks, in order, that can be kept. Returns false for uniform silence, which the cursor passes.
  // Requires a free window.
  bool encode(Open& open, Track& track) {
    if (track.encoded) return true;
    std::vector<Taken> next{{&open, &track}};
    size_t n_most = audio_.size();
    for (const auto& each : recordings_.all()) {
      n_most -= static_cast<size_t>(std::ranges::count_if(
          each->tracks, [](const Track& other) { return other.encoded.has_value(); }));
    }
    n_most = std::min(n_most, free_windows_.size());
    for (const auto& each : recordings_.all()) {
      for (Track& other : each->tracks) {
        if (next.size() >= n_most) break;
        if (&other == &track || other.is_taken || other.encoded || other.cursor.is_at_end()) {
          continue;
        }
        next.push_back({each.get(), &other});
      }
    }
    std::vector<uint8_t> has_sound(next.size());
    run_tasks(next.size(), /*n_threads=*/0, [&](size_t i) {
      has_sound[i] = next[i].of->recording.read_next(next[i].track->cursor, audio_[i]);
    });
    std::vector<const float*> windows;
    std::vector<uint32_t> to;
    for (size_t i = 0; i < next.size(); ++i) {
      if (!has_sound[i]) continue;
      windows.push_back(audio_[i].log_mel.data());
      to.push_back(free_windows_.back());
      free_windows_.pop_back();
      next[i].track->encoded = to.back();
    }
    if (!windows.empty()) windows_.model().encode(windows, to);
    return track.encoded.has_value();
  }

  // The earliest timestamp that may end the next window; 0: any. A model often omits the last
  // sentence of a window as if the window cut it, but speech segments are not cut.
  static uint32_t speech_end_in_window(const WindowDecoder& windows, const Track& track) {
    const WindowPolicy& policy = windows.settings().policy;
    // Timestamps and the end of speech are inexact.
    const uint64_t begin = track.cursor.seek + policy.speech_end_slack_frames;
    if (!policy.hold_until_speech_ends || track.speech_end <= begin ||
        track.cursor.end - track.cursor.seek > windows.model().n_frames()) {
      return 0;
    }
    return static_cast<uint32_t>((track.speech_end - begin) / kFramesPerTimestamp);
  }

  // Takes the first attempt at a window, if it decides the window.
  void take(uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.taken.of == nullptr) return;
    const DecodingSettings& settings = slot.taken.of->windows.settings();
    WindowResult result = judge(decoder_.result(index), settings.temperatures.front(), slot.taken);
    // Waiting for the end of speech is the most frequent cause of a failure.
    if (!passes(result, settings) && std::exchange(slot.task.speech_end, 0) > 0) {
      return start(index);
    }
    Tried window{std::exchange(slot.taken, {}), std::move(slot.task), WindowAttempts(settings)};
    const bool is_decided = window.attempts.take(std::move(result));
    settle(std::move(window), is_decided);
  }

  // Aligns the words of all windows that have ended together.
  void finish_windows() {
    std::vector<AlignmentTask> tasks;
    for (Ended& ended : ended_) {
      if (ended.cut.words) tasks.push_back(*ended.cut.words);
    }
    std::vector<TokenAlignment> found;
    if (!tasks.empty()) found = windows_.model().aligner().align(tasks);
    auto next = found.begin();
    for (Ended& ended : std::exchange(ended_, {})) {
      const TokenAlignment* const words = ended.cut.words ? &*next++ : nullptr;
      const Taken& taken = ended.taken;
      finish(taken, taken.of->windows.advance(taken.of->recording.state, taken.track->cursor,
                                              std::move(ended.cut), words));
      free_windows_.push_back(ended.window);
    }
  }

  // Decodes a track's next window, in a language that is found with the whole decoder.
  void decode_alone(const Taken& taken) {
    set_language(*taken.of, *taken.track);
    WindowCursor& cursor = taken.track->cursor;
    if (taken.of->recording.encode_next(cursor)) {
      const WindowResult result = taken.of->recording.decode(cursor);
      finish(taken, taken.of->windows.advance(taken.of->recording.state, cursor, result, 0));
    } else {
      taken.track->is_taken = false;
    }
  }

  // After a window: its segments wait until they can be emitted.
  void finish(const Taken& taken, std::vector<Segment> segments) {
    Track& track = *taken.track;
    std::ranges::move(segments, std::back_inserter(track.segments));
    track.is_taken = false;
    if (taken.of->is_done()) taken.of->source.mel.reset();
    recordings_.emit();
  }

  const WindowDecoder windows_;
  WhisperDecoder& decoder_;
  const DecodingSettings& settings_;
  const BatchOptions& options_;
  const Search search_;                 // of first attempts
  std::vector<AudioWindow> audio_;      // of windows that are encoded at once
  std::vector<uint32_t> free_windows_;  // indices
  std::vector<Slot> slots_;
  BatchRecordings recordings_;
  std::vector<Ended> ended_;  // since the last steps
  // Decoded while nothing else runs.
  std::vector<Tried> failed_;
  std::vector<Taken> alone_;
  uint32_t n_running_ = 0;
};

}  // namespace

void transcribe_batch(WhisperModel& model, const DecodingSettings& settings,
                      const NextRecording& next, const BatchOptions& options) {
  Batch(model, settings, next, options).run();
}

Transcript transcribe_segments(WhisperModel& model, const MelSpectrogram& mel,
                               std::span<const SpeechSegment> segments,
                               const DecodingSettings& settings, const EmitSegment& on_segment,
                               const ReportProgress& on_progress) {
  Transcript transcript;
  bool is_given = false;
  transcribe_batch(model, settings, [&]() -> std::optional<BatchRecording> {
    if (std::exchange(is_given, true)) return std::nullopt;
    return BatchRecording{.mel = {std::shared_ptr<const void>(), &mel},
                          .parts = {segments.begin(), segments.end()},
                          .speech = std::vector(segments.begin(), segments.end()),
                          .on_segment = on_segment,
                          .on_progress = on_progress,
                          .on_end = [&](Transcript whole) { transcript = std::move(whole); }};
  });
  return transcript;
}

}  // namespace vesper

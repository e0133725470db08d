// The open recordings of a batch: which windows wait, and in which order their text is emitted.
//
// In: recordings of the caller, opened one after another; cursors that move. Out: tracks whose next
// windows can start; the events of each recording. Used by batch_transcriber.cc, which decodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "decoder/windows/batch_transcriber.h"
#include "decoder/windows/recording_transcriber.h"
#include "decoder/windows/window_cursor.h"
#include "decoder/windows/window_decoder.h"

namespace vesper {

class BatchRecordings {
 public:
  // A part of a recording with its own cursor.
  struct Track {
    WindowCursor cursor;
    uint64_t speech_end;                   // frame
    bool is_taken = false;                 // in a slot, or failed
    std::optional<uint32_t> encoded = {};  // index of the next window, which waits for a slot
    std::vector<Segment> segments = {};    // not emitted yet

    bool is_waiting() const { return !is_taken && !cursor.is_at_end(); }
  };

  struct Open {
    Open(const WindowDecoder& of_batch, BatchRecording from);

    BatchRecording source;
    const WindowDecoder& windows;
    RecordingWindows recording;
    std::vector<Track> tracks;       // not resized while pointers to its elements exist
    size_t n_emitted = 0;            // tracks whose segments were all emitted
    bool has_guessed_wrong = false;  // the language

    bool is_taken() const;        // a track is
    bool is_waiting() const;      // a track is
    bool is_done() const;         // all tracks are at their end
    bool needs_language() const;  // before its windows can be decoded
    uint64_t n_frames_left() const;
  };

  // At most n_most are open at once. All must outlive this object.
  BatchRecordings(const WindowDecoder& windows, const NextRecording& next,
                  const BatchOptions& options, size_t n_most);

  const std::deque<std::unique_ptr<Open>>& all() const { return open_; }  // in order
  // Whether there is neither an open recording nor another one.
  bool is_done() const { return has_ended_ && open_.empty(); }
  // Whether a recording was asked for since the last call and was not there, but may come.
  bool should_ask_again();

  // Waits for a recording unless a window can start. Requires an idle decoder, with which the new
  // recording may detect its language.
  void open_first();
  // Opens recordings while others are decoded, without waiting: until `n_windows` windows can
  // start, or, if recordings take turns, all that have arrived.
  void open_ready(size_t n_windows);
  // Opens the next recording while others are decoded. Returns false if there is none, or if it is
  // not ready and `may_wait` is false.
  bool open_beside(bool may_wait);

  // In the order in which their windows start. `n_running`: windows of a recording that run.
  std::vector<Open*> in_turn(const std::function<size_t(const Open&)>& n_running) const;
  // Emits the segments that no other segment can precede. Ends and removes the recordings that are
  // done.
  void emit();

 private:
  bool has_waiting(size_t n) const;
  bool open_next(bool may_wait);

  const WindowDecoder& windows_;
  const NextRecording& next_;
  const BatchOptions& options_;
  size_t n_most_;
  bool has_ended_ = false;  // the last call of next_ returned none
  bool should_ask_again_ = false;
  std::deque<std::unique_ptr<Open>> open_;
};

}  // namespace vesper

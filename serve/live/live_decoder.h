// Transcribes live audio while it comes. In: turns, each a stretch of audio with its settings. Out:
// words and transcripts, as events. A thread loads a session and runs
// SpeechSession::transcribe_live on a pipe for each turn, one after the other. Used by the
// WebSockets of this folder.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "audio/sources/unlinked_file.h"
#include "serve/live/live_sessions.h"

namespace vesper {

struct LiveTurnSettings {
  std::string model;  // empty: the only speech model
  std::string language = "auto";
  std::string prompt;
  std::string hotwords;
  ReaderOptions audio;  // the format of the bytes
  double step_s = 1;    // between two captions
};

// Called by the thread that decodes. The last one is on_done or on_error; none follows a cancel().
struct LiveTurnEvents {
  std::function<void(const std::string& model)> on_ready = {};  // the model is loaded
  // As SpeechEvents has them.
  std::function<void(std::span<const CaptionWord> words, double received_s)> on_final = {};
  std::function<void(std::span<const CaptionWord> words, double received_s)> on_partial = {};
  std::function<void(const Transcript& transcript)> on_done = {};
  std::function<void(const std::exception& error)> on_error = {};
};

// All of it belongs to one thread; another one decodes.
class LiveTurn {
 public:
  // Throws Error(kDevice).
  LiveTurn(LiveTurnSettings settings, LiveTurnEvents events);

  // Waits while the decoder is behind: by a minute (LiveSource), and by what the pipe holds. Drops
  // the bytes if nothing is decoded any more, or `is_given_up`, called every 100 ms, returns true.
  void write(std::string_view bytes, const std::function<bool()>& is_given_up);
  // No audio follows.
  void end() { in_.reset(); }
  bool has_ended() const { return !in_.is_open(); }
  // Ends decoding at the next step. No event follows that has not begun.
  void cancel() {
    is_cancelled_ = true;
    end();
  }

 private:
  friend class LiveDecoder;
  LiveTurnSettings settings_;
  LiveTurnEvents events_;
  UniqueFd out_, in_;  // ends of the pipe
  std::atomic<bool> is_cancelled_ = false;
  std::atomic<bool> is_decoded_ = false;  // no audio is read any more
};

class LiveDecoder {
 public:
  // `sessions` must outlive this.
  explicit LiveDecoder(LiveSessions& sessions) : sessions_(sessions) {}
  // Cancels all turns.
  ~LiveDecoder();
  LiveDecoder(const LiveDecoder&) = delete;
  LiveDecoder& operator=(const LiveDecoder&) = delete;

  // Decodes a turn after those before it. While too many wait, waits until `is_given_up`, called
  // every 100 ms, returns true; then the turn is dropped.
  void add(std::shared_ptr<LiveTurn> turn, const std::function<bool()>& is_given_up);
  // No turn follows. `on_idle` is called once, when all turns are decoded.
  void finish(std::function<void()> on_idle);

 private:
  void run();
  void decode(LiveTurn& turn);

  LiveSessions& sessions_;
  std::unique_ptr<LiveSessions::Lease> lease_;  // of the last turn's model; the thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<LiveTurn>> turns_;  // the first one is being decoded
  bool has_finished_ = false;                    // no turn follows
  std::function<void()> on_idle_;
  std::thread thread_;
};

}  // namespace vesper

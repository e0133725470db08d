// A live stream: a thread that reads audio ahead while the model works, and the schedule of
// decoding. In: an AudioReader. Out: blocks of 16 kHz mono samples for a decoder
// (decoder/windows/live/live_transcriber). Called by SpeechSession.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "audio/sources/reader.h"

namespace vesper {

class LiveSource {
 public:
  // Starts reading, at most a minute ahead. The thread ends with the stream or the process, because
  // a blocking read cannot be interrupted. `is_recorded`: all audio is available at once, as in a
  // file.
  LiveSource(AudioReader reader, bool is_recorded);
  ~LiveSource();
  LiveSource(const LiveSource&) = delete;
  LiveSource& operator=(const LiveSource&) = delete;

  // Waits for `n` samples (16 kHz mono; at most a minute) or the end of the stream, and returns
  // them: fewer at the end, none after it. After the last samples, throws the error of reading. If
  // `is_stopped`, called every 100 ms, returns true, the stream ends.
  std::vector<float> take(size_t n, const std::function<bool()>& is_stopped = {});

  // Samples available now.
  size_t waiting() const;
  // Whether `n` samples are available or the stream has ended; waits 30 ms for a sender. Always
  // true for a recording, so that the result does not depend on the speed of reading.
  bool has_more(size_t n) const;
  // Whether audio arrives at about real time, not as fast as a file is read.
  bool is_paced() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A pass over new audio that took longer than a step.
struct SlowPass {
  double pass_s = 0;
  double behind_s = 0;      // seconds of waiting audio
  bool had_window = false;  // included a full window
};

// Settings for following a stream.
struct LiveOptions {
  // Seconds of new audio between two passes. Our choice: short enough to read along, long enough
  // for a small model on two cores.
  double step_s = 1;
  // Called for passes that take longer than step_s, if audio arrives in real time.
  std::function<void(const SlowPass& pass)> on_slow = {};
  // Called at least every 100 ms; true ends the stream, and the received audio is decoded.
  std::function<bool()> is_stopped = {};
};

// The work on new audio.
struct LivePasses {
  std::function<void(std::span<const float> samples)> push;
  std::function<bool()> whole_windows;  // decodes full windows; returns whether there were any
  std::function<void()> beginning;      // decodes the beginning of the next window
};

// Runs a pass after every step of the stream until it ends or is stopped: decodes full windows, and
// the beginning of the next one unless more audio is available. Returns the error of reading, if
// any; the audio before it has been decoded.
std::exception_ptr follow(LiveSource& source, const LiveOptions& options, const LivePasses& passes);

}  // namespace vesper

// A live stream: sound that is read ahead by a thread of its own, so that it keeps coming in while
// the model works, and the rhythm at which what has come is decoded. In comes an AudioReader; out
// go blocks of 16 kHz mono to a decoder (decoder/windows/live/live_transcriber). Called by
// SpeechSession.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "audio/reader.h"

namespace vesper {

class LiveSource {
 public:
  // Begins to read. The thread waits when it is a minute ahead. It ends with the stream, or with
  // the process: a read that blocks cannot be interrupted. `is_recorded`: all of the sound is there
  // already, as in a file.
  LiveSource(AudioReader reader, bool is_recorded);
  ~LiveSource();
  LiveSource(const LiveSource&) = delete;
  LiveSource& operator=(const LiveSource&) = delete;

  // Waits for `n` samples (16 kHz mono; at most a minute), or the end of the stream, and takes
  // them: fewer at the end, and none after it. Throws what reading threw, after the samples before.
  // Where `is_stopped`, asked every 100 ms, returns true, the stream ends.
  std::vector<float> take(size_t n, const std::function<bool()>& is_stopped = {});

  // Samples that can be taken now.
  size_t waiting() const;
  // Whether `n` samples are waiting or the stream has ended; a sender that has them is given 30 ms.
  // Always true of a recording, so that what is decoded of it does not depend on how fast it is
  // read.
  bool has_more(size_t n) const;
  // Whether the sound comes about as fast as it is heard, not as fast as a file can be read.
  bool is_paced() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A pass over new sound that took longer than a step, so that the next one is late.
struct SlowPass {
  double pass_s = 0;
  double behind_s = 0;      // seconds of sound that are waiting
  bool had_window = false;  // a full window was decoded, too
};

// How a stream is followed.
struct LiveOptions {
  // Seconds of new sound from one look at it to the next. Ours: short enough to read along, and
  // long enough for a small model on two cores.
  double step_s = 1;
  // Told of passes that take longer than step_s, where the sound comes in real time.
  std::function<void(const SlowPass& pass)> on_slow = {};
  // Asked at least every 100 ms: true ends the stream, and what has come is decoded to the end.
  std::function<bool()> is_stopped = {};
};

// What is done with new sound.
struct LivePasses {
  std::function<void(std::span<const float> samples)> push;
  std::function<bool()> whole_windows;  // decodes the windows that are full; whether there were any
  std::function<void()> beginning;      // decodes the beginning of the next one
};

// Makes a pass after every step of the stream until it ends or is stopped: decodes the full
// windows, and looks at the beginning of the next one unless more sound is there. Returns what
// reading it failed with, if it did: what came before has been decoded.
std::exception_ptr follow(LiveSource& source, const LiveOptions& options, const LivePasses& passes);

}  // namespace vesper

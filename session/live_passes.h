// The rhythm of live captions: when sound that came is looked at, and whether that takes too long.
//
// Comes between the stream (session/live_source) and what makes words of it
// (decoder/windows/live_transcriber), of which it knows what to call; called by the engine.
#pragma once

#include <exception>
#include <functional>
#include <span>

#include "session/live_source.h"

namespace vesper {

// What is done with what has come.
struct LivePasses {
  std::function<void(std::span<const float> samples)> push;
  std::function<bool()> whole_windows;  // decodes those that are full; whether there were any
  std::function<void()> beginning;      // looks at what is there of the next one
};

// A pass over what is new that took longer than a step, so that the next one comes later.
struct SlowPass {
  double pass_s = 0;
  double behind_s = 0;      // seconds of sound that are waiting
  bool had_window = false;  // a full window was decoded too
};

// How a stream is followed.
struct LiveOptions {
  double step_s = 1;                                       // look so often
  std::function<void(const SlowPass& pass)> on_slow = {};  // where the sound comes by the clock
  std::function<bool()> is_stopped = {};                   // nobody wants what still comes
};

// Looks at the stream, a step after the other, until it ends or is stopped. Returns what reading it
// failed with, if it did: what came before was looked at.
std::exception_ptr follow(LiveSource& source, const LiveOptions& options, const LivePasses& passes);

}  // namespace vesper

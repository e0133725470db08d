// Ctrl-C as the end of what comes in, for programs whose input has no other.
#pragma once

#include <csignal>

namespace vesper {

// While it lives, the first Ctrl-C is noted; the second one does what it did before. Left alone
// where the caller ignores the signal. One at a time.
class InterruptOnce {
 public:
  InterruptOnce();
  ~InterruptOnce();
  InterruptOnce(const InterruptOnce&) = delete;
  InterruptOnce& operator=(const InterruptOnce&) = delete;

  static bool has_come();
};

}  // namespace vesper

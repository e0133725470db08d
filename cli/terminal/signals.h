// Signals: Ctrl-C that a program handles.
#pragma once

#include <csignal>

namespace vesper {

// While it exists, Ctrl-C sets a flag: it ends input that has no other end, or an answer. One
// object at a time.
class InterruptNoted {
 public:
  enum class Which {
    kFirst,  // the second one has the previous effect; ignored if the caller ignores them
    kEvery,  // for interactive programs
  };
  explicit InterruptNoted(Which which);
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;

  static bool has_come();
  static void forget();  // resets the flag
};

}  // namespace vesper

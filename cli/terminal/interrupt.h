// Ctrl-C that a program hears of instead of ending by it: the end of what comes in where that has
// no other, or of an answer.
#pragma once

#include <csignal>

namespace vesper {

// While it lives, Ctrl-C is noted. One at a time.
class InterruptNoted {
 public:
  enum class Which {
    kFirst,  // the second one does what it did before; left alone where the caller ignores them
    kEvery,  // for who sits at a terminal
  };
  explicit InterruptNoted(Which which);
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;

  static bool has_come();
  static void forget();  // what has come
};

}  // namespace vesper

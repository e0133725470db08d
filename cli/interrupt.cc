#include "cli/interrupt.h"

#include <atomic>

namespace vesper {
namespace {

std::atomic<bool> g_has_come = false;
static_assert(std::atomic<bool>::is_always_lock_free);
struct sigaction g_before = {};

void note(int) {
  g_has_come = true;
  sigaction(SIGINT, &g_before, nullptr);
}

}  // namespace

InterruptOnce::InterruptOnce() {
  g_has_come = false;
  if (sigaction(SIGINT, nullptr, &g_before) != 0 || g_before.sa_handler == SIG_IGN) return;
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;  // a read that waits for sound is none that failed
  sigaction(SIGINT, &action, nullptr);
}

InterruptOnce::~InterruptOnce() { sigaction(SIGINT, &g_before, nullptr); }

bool InterruptOnce::has_come() { return g_has_come; }

}  // namespace vesper

#include "cli/terminal/signals.h"

#include <atomic>

namespace vesper {
namespace {

std::atomic<bool> g_has_come = false;
static_assert(std::atomic<bool>::is_always_lock_free);
struct sigaction g_before = {};

void note(int) { g_has_come = true; }

void note_first(int) {
  g_has_come = true;
  sigaction(SIGINT, &g_before, nullptr);
}

}  // namespace

InterruptNoted::InterruptNoted(Which which) {
  g_has_come = false;
  if (sigaction(SIGINT, nullptr, &g_before) != 0) return;
  if (which == Which::kFirst && g_before.sa_handler == SIG_IGN) return;
  struct sigaction action = {};
  action.sa_handler = which == Which::kFirst ? note_first : note;
  action.sa_flags = SA_RESTART;  // continues a read that waits for audio or a line
  sigaction(SIGINT, &action, nullptr);
}

InterruptNoted::~InterruptNoted() { sigaction(SIGINT, &g_before, nullptr); }

bool InterruptNoted::has_come() { return g_has_come; }

void InterruptNoted::forget() { g_has_come = false; }

}  // namespace vesper

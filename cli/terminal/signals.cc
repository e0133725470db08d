#include "cli/terminal/signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>

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

std::array<std::atomic<char*>, 256> g_paths{};
static_assert(std::atomic<char*>::is_always_lock_free);

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

UnfinishedFile::UnfinishedFile(const std::string& path)
    : path_(new char[path.size() + 1]), slot_(0) {
  std::memcpy(path_, path.c_str(), path.size() + 1);
  for (; slot_ < g_paths.size(); ++slot_) {
    char* empty = nullptr;
    if (g_paths[slot_].compare_exchange_strong(empty, path_)) break;
  }
}

UnfinishedFile::~UnfinishedFile() {
  if (slot_ < g_paths.size()) g_paths[slot_].store(nullptr);
  delete[] path_;
}

void remove_unfinished_files() {
  for (std::atomic<char*>& path : g_paths) {
    if (const char* file = path.load()) unlink(file);
  }
}

}  // namespace vesper

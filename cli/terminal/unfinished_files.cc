#include "cli/terminal/unfinished_files.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>

namespace vesper {
namespace {

std::array<std::atomic<char*>, 256> g_paths{};
static_assert(std::atomic<char*>::is_always_lock_free);

}  // namespace

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

#include "capi/cancellation.h"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "capi/errors.h"

struct vesper_cancellation {
  std::atomic<bool> is_open = false, is_requested = false;
};

namespace vesper::capi {
namespace {

// A signal handler cannot take the registry's mutex. So cancellations have memory of their own that
// is never freed, only used again, and the list of its blocks is read without a lock.
struct Block {
  std::array<vesper_cancellation, 64> flags;
  Block* next = nullptr;
};
std::atomic<Block*> first_block = nullptr;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<Block*>::is_always_lock_free);

vesper_cancellation* find(const vesper_cancellation* handle) {
  for (Block* block = first_block; block; block = block->next) {
    for (vesper_cancellation& flag : block->flags) {
      if (&flag == handle) return flag.is_open ? &flag : nullptr;
    }
  }
  return nullptr;
}

vesper_cancellation* open_one() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  while (true) {
    for (Block* block = first_block; block; block = block->next) {
      for (vesper_cancellation& flag : block->flags) {
        if (flag.is_open) continue;
        flag.is_requested = false;
        flag.is_open = true;
        return &flag;
      }
    }
    auto* block = new Block;
    block->next = first_block;
    first_block = block;
  }
}

[[noreturn]] void refuse(const void* handle) {
  throw ArgumentError("cancellation",
                      handle ? "expected a cancellation that is open, found another address"
                             : "expected a cancellation that is open, found NULL");
}

}  // namespace

std::function<bool()> is_cancelled(const vesper_cancellation* cancellation) {
  if (!cancellation) return {};
  const vesper_cancellation* flag = find(cancellation);
  if (!flag) refuse(cancellation);
  return [flag] { return flag->is_requested.load(); };
}

}  // namespace vesper::capi

namespace capi = vesper::capi;

extern "C" {

vesper_status vesper_cancellation_new(vesper_cancellation** cancellation) {
  return capi::guarded(__func__, nullptr, [&] {
    *capi::required("cancellation", cancellation) = nullptr;
    *cancellation = capi::open_one();
  });
}

void vesper_cancellation_request(vesper_cancellation* cancellation) {
  if (vesper_cancellation* flag = capi::find(cancellation)) flag->is_requested = true;
}

void vesper_cancellation_reset(vesper_cancellation* cancellation) {
  if (vesper_cancellation* flag = capi::find(cancellation)) flag->is_requested = false;
}

int vesper_cancellation_is_requested(const vesper_cancellation* cancellation) {
  const vesper_cancellation* flag = capi::find(cancellation);
  return flag && flag->is_requested ? 1 : 0;
}

void vesper_cancellation_free(vesper_cancellation* cancellation) {
  if (!cancellation) return;
  capi::guarded(__func__, nullptr, [&] {
    vesper_cancellation* flag = capi::find(cancellation);
    if (!flag || !flag->is_open.exchange(false)) capi::refuse(cancellation);
  });
}

}  // extern "C"

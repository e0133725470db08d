#include "tests/llm/counted_allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {
std::atomic<uint64_t> n_calls{0};
}

uint64_t vesper::n_allocations() { return n_calls; }

#if defined(__GLIBC__) && !defined(VESPER_SANITIZED)
// glibc's entry points behind the replaced ones.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) {
  ++n_calls;
  return __libc_malloc(n);
}
void* calloc(size_t count, size_t n) {
  ++n_calls;
  return __libc_calloc(count, n);
}
void* realloc(void* old, size_t n) {
  ++n_calls;
  return __libc_realloc(old, n);
}
void* aligned_alloc(size_t alignment, size_t n) {
  ++n_calls;
  return __libc_memalign(alignment, n);
}
int posix_memalign(void** out, size_t alignment, size_t n) {
  ++n_calls;
  *out = __libc_memalign(alignment, n);
  return *out != nullptr ? 0 : ENOMEM;
}
}
#endif

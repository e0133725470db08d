// Counts the calls of the allocator, in all threads and libraries of a test program that links
// this.
#pragma once

#include <cstdint>

namespace vesper {

// Since the program began. Where sanitizers bring an allocator of their own, or the C library is
// not glibc, nothing is counted.
uint64_t n_allocations();

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAllocationsAreCounted = true;
#else
inline constexpr bool kAllocationsAreCounted = false;
#endif

}  // namespace vesper

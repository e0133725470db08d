// Counts allocations in all threads and libraries of a test program that links this.
#pragma once

#include <cstdint>

namespace vesper {

// Since the start of the program. Counts nothing with sanitizers, or without glibc.
uint64_t n_allocations();

#if defined(__GLIBC__) && !defined(VESPER_SANITIZED)
inline constexpr bool kAllocationsAreCounted = true;
#else
inline constexpr bool kAllocationsAreCounted = false;
#endif

}  // namespace vesper

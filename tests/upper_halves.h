// Whether code leaves the upper halves of vector registers in use. On Intel CPUs all later SSE
// instructions of its thread are then slow.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>

namespace vesper::test {

// Intel's manual, volume 1, 13.6.
inline bool upper_halves_are_in_use() {
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return (low & 4) != 0;
}

inline bool cpu_tells_registers_in_use() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(0xd, 1, &a, &b, &c, &d) != 0 &&
         (a & 4) != 0;
}

inline void clear_upper_halves() { asm volatile("vzeroupper" ::: "xmm0"); }

}  // namespace vesper::test
#endif

// Instructions that multiply pairs or quads of 16 or 8 bits and add them to sums of 32 bits. They
// are assembly: Highway 1.0 lacks them, their intrinsics cannot be inlined into functions for CPUs
// without them, and GCC 12 adds moves of the sums. Run them only if cpu_features() has them.
//
// `sum`, `a` and `b` are vectors; `sum` is a variable, which is read and written.
#pragma once

#include <cstddef>

// AVX512-BF16: pairs of bf16, f32 sums.
#define VESPER_VDPBF16PS(sum, a, b) asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))

// AVX512-VNNI: quads of unsigned (a) and signed (b) bytes; sums wrap around.
#define VESPER_VPDPBUSD(sum, a, b) asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))
// The same of AVX-VNNI, for vectors of 256 bits.
#define VESPER_VEX_VPDPBUSD(sum, a, b) \
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b))

// AVX512-VNNI: pairs of int16, for vectors of 512 bits. All lanes have the same b, 4 bytes of
// memory at `b_address`.
#define VESPER_VPDPWSSD_BROADCAST(sum, a, b_address) \
  asm("vpdpwssd %2%{1to16%}, %1, %0"                 \
      : "+v"(sum)                                    \
      : "v"(a), "m"(*reinterpret_cast<const std::byte(*)[4]>(b_address)))

// Intrinsics for kernels on instructions that not every x86 has, and the instruction sets of their
// functions. Of these, not of a file, so that no inline function of a header is compiled for them
// and then shared with the rest of the program. None may run before cpu_features() allows it.
#pragma once

// GCC 12 takes the undefined vectors of its own intrinsics for mistakes: to the end of the file
// that includes this.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#define VESPER_AVX2 __attribute__((target("avx2,fma")))
#define VESPER_AVX2_INLINE VESPER_AVX2 __attribute__((always_inline)) inline
#define VESPER_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define VESPER_VNNI_INLINE VESPER_VNNI __attribute__((always_inline)) inline
#define VESPER_AMX \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16,amx-int8")))
#define VESPER_AMX_INLINE VESPER_AMX __attribute__((always_inline)) inline

// Intrinsics for x86 instructions that not every CPU has, and target attributes of functions.
// Attributes are per function, not per file, so that inline functions of headers are not compiled
// for these targets and shared with the rest of the program. Run such functions only if
// cpu_features() has the instructions.
#pragma once

// GCC 12 warns about undefined vectors in its own intrinsics; ignored to the end of the including
// file.
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#define VESPER_AVX2 __attribute__((target("avx2,fma")))
#define VESPER_AVX2_INLINE VESPER_AVX2 __attribute__((always_inline)) inline
#define VESPER_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define VESPER_VNNI_INLINE VESPER_VNNI __attribute__((always_inline)) inline
#define VESPER_AMX \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16,amx-int8")))
#define VESPER_AMX_INLINE VESPER_AMX __attribute__((always_inline)) inline

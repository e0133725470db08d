// In place of the kernels' x86_targets.h: AVX-512 as functions, compiled for AVX2.
#pragma once

#include <immintrin.h>

#define VESPER_AVX2
#define VESPER_AVX2_INLINE __attribute__((always_inline)) inline
#define VESPER_VNNI
#define VESPER_VNNI_INLINE __attribute__((always_inline)) inline
#define VESPER_AMX __attribute__((target("amx-tile,amx-bf16,amx-int8")))
#define VESPER_AMX_INLINE VESPER_AMX __attribute__((always_inline)) inline

// Exchanging rows and columns on AVX-512; nothing on other instruction sets. Included within
// Highway's loop over instruction sets (hence no include guard of the usual kind).
#if defined(VESPER_LLM_CPU_TRANSPOSE_16X16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_TRANSPOSE_16X16_INL_H_
#undef VESPER_LLM_CPU_TRANSPOSE_16X16_INL_H_
#else
#define VESPER_LLM_CPU_TRANSPOSE_16X16_INL_H_
#endif

#include "hwy/highway.h"

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
#include <immintrin.h>

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// Exchanges rows and columns of 16 x 16 elements of 32 bits.
HWY_INLINE void transpose_16x16(__m512i* rows) {
  __m512i a[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  // Now column 4 j + i of rows 4 b .. 4 b + 3 is the j-th quarter of rows[4 b + i].
  for (int i = 0; i < 4; ++i) {
    const __m512i low = _mm512_shuffle_i32x4(rows[i], rows[4 + i], 0x44);
    const __m512i high = _mm512_shuffle_i32x4(rows[i], rows[4 + i], 0xEE);
    const __m512i low2 = _mm512_shuffle_i32x4(rows[8 + i], rows[12 + i], 0x44);
    const __m512i high2 = _mm512_shuffle_i32x4(rows[8 + i], rows[12 + i], 0xEE);
    a[i] = _mm512_shuffle_i32x4(low, low2, 0x88);
    a[4 + i] = _mm512_shuffle_i32x4(low, low2, 0xDD);
    a[8 + i] = _mm512_shuffle_i32x4(high, high2, 0x88);
    a[12 + i] = _mm512_shuffle_i32x4(high, high2, 0xDD);
  }
  for (int i = 0; i < 16; ++i) rows[i] = a[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();
#endif

#endif

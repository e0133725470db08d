// Transposes matrices of 32-bit elements. Compiled once per instruction set (Highway's
// foreach_target), so there is no plain include guard.
#if defined(VESPER_LLM_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_TRANSPOSE_INL_H_
#undef VESPER_LLM_CPU_TRANSPOSE_INL_H_
#else
#define VESPER_LLM_CPU_TRANSPOSE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

struct MatrixView {
  const uint32_t* first;
  size_t stride;  // between rows
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
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
  // Now column 4 j + i of rows 4 b to 4 b + 3 is quarter j of rows[4 b + i].
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
#endif

// out [n_columns, out_stride]: column c of the matrix as row c, `padded_rows` long, with zeros
// after n_rows.
inline HWY_NOINLINE void transpose(MatrixView in, size_t n_rows, size_t padded_rows,
                                   size_t n_columns, uint32_t* out, size_t out_stride) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const auto first_of_16 = [](size_t n) {
    return static_cast<__mmask16>(n >= 16 ? 0xFFFF : (1u << n) - 1);
  };
  for (size_t row = 0; row < padded_rows; row += 16) {
    const __mmask16 stored = first_of_16(padded_rows - row);
    for (size_t column = 0; column < n_columns; column += 16) {
      const __mmask16 loaded = first_of_16(n_columns - column);
      __m512i block[16];
      for (size_t i = 0; i < 16; ++i) {
        block[i] = row + i < n_rows
                       ? _mm512_maskz_loadu_epi32(loaded, in.first + (row + i) * in.stride + column)
                       : _mm512_setzero_si512();
      }
      transpose_16x16(block);
      for (size_t i = 0; i < std::min<size_t>(16, n_columns - column); ++i) {
        _mm512_mask_storeu_epi32(out + (column + i) * out_stride + row, stored, block[i]);
      }
    }
  }
#else
  for (size_t r = 0; r < padded_rows; ++r) {
    for (size_t c = 0; c < n_columns; ++c) {
      out[c * out_stride + r] = r < n_rows ? in.first[r * in.stride + c] : 0;
    }
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif

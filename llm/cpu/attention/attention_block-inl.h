// The parts of a blocked attention: its products and its online softmax. Queries are in the lanes
// of two vectors, so softmax never adds across lanes. Products use units of 32 bits, one f32 or two
// bf16. Compiled once per instruction set (Highway's foreach_target), so there is no plain include
// guard.
#if defined(VESPER_LLM_CPU_ATTENTION_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_ATTENTION_BLOCK_INL_H_
#undef VESPER_LLM_CPU_ATTENTION_BLOCK_INL_H_
#else
#define VESPER_LLM_CPU_ATTENTION_BLOCK_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "llm/cpu/amx_tile.h"
#include "llm/cpu/matmul/multiply_add-inl.h"
#include "llm/cpu/numbers-inl.h"

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
#include <immintrin.h>
#undef VESPER_AMX_TILES
#define VESPER_AMX_TILES __attribute__((target(HWY_TARGET_STR ",amx-tile,amx-bf16")))
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows multiplied with two vectors at once: as many as the registers hold sums.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr size_t kBlockUnroll = 8;
#else
inline constexpr size_t kBlockUnroll = 4;
#endif

// Below every score, but finite, so that differences are finite if a query sees none of a block's
// keys.
inline constexpr float kNoScore = -1e30f;
inline constexpr float kLog2E = 1.44269504f;

// 2^x for x <= 0, with a relative error of 8e-8, or 8e-5 if the result is rounded to bf16. Results
// below 2^-126 may be 0. Polynomials with minimal relative error on [0, 1).
template <bool kPrecise, class D>
HWY_INLINE hn::Vec<D> exp2_of(D d, hn::Vec<D> x) {
  using V = hn::Vec<D>;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const V f{_mm512_reduce_ps(x.raw, 0x9)};  // x - floor(x)
#else
  const hn::RebindToSigned<D> di;
  const auto is_there = hn::Ge(x, hn::Set(d, -126.0f));
  const V floor = hn::Floor(x);
  const V f = hn::Sub(x, floor);
#endif
  V y;
  if constexpr (kPrecise) {
    y = hn::MulAdd(f, hn::Set(d, 0.0018775767f), hn::Set(d, 0.0089893406f));
    y = hn::MulAdd(y, f, hn::Set(d, 0.0558263175f));
    y = hn::MulAdd(y, f, hn::Set(d, 0.2401536107f));
    y = hn::MulAdd(y, f, hn::Set(d, 0.6931530833f));
    y = hn::MulAdd(y, f, hn::Set(d, 0.9999999404f));
  } else {
    y = hn::MulAdd(f, hn::Set(d, 0.0780245215f), hn::Set(d, 0.2260671556f));
    y = hn::MulAdd(y, f, hn::Set(d, 0.6958335638f));
    y = hn::MulAdd(y, f, hn::Set(d, 0.9999251962f));
  }
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return V{_mm512_scalef_ps(y.raw, x.raw)};
#else
  const auto bits = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, floor), hn::Set(di, 127)));
  return hn::IfThenElseZero(is_there, hn::Mul(y, hn::BitCast(d, bits)));
#endif
}

// A product of a blocked attention computes scores (rows are keys, columns transposed queries) and
// weighted values (rows are dimensions, columns probabilities):
//
//   sums[r][2 vectors] = sums[r] * factors + sum over i < n of
//                        rows[r * row_stride + i * step] * columns[i][2 vectors]
//
// for n_rows rows, in units of kPerUnit elements. Null factors: sums is not read. Only the first
// kVectors of the two vectors are computed.

// Products by a multiply-add of multiply_add-inl.h.
template <class Op>
struct VectorProduct {
  static constexpr size_t kPerUnit = Op::kPerUnit;
  static constexpr uint32_t kKeyStep = kPerUnit;  // keys come in multiples of this
  static constexpr bool kTransposesValues = false;
  static size_t key_units(size_t head_dim) { return head_dim / kPerUnit; }
  static void begin() {}
  static void end() {}

  template <size_t kVectors>
  static HWY_INLINE void multiply(const uint32_t* HWY_RESTRICT rows, size_t row_stride, size_t step,
                                  size_t n_rows, const uint32_t* HWY_RESTRICT columns, size_t n,
                                  const VF32* factors, float* HWY_RESTRICT sums) {
    size_t r = 0;
    for (; r + kBlockUnroll <= n_rows; r += kBlockUnroll) {
      multiply_rows<kBlockUnroll, kVectors>(rows + r * row_stride, row_stride, step, columns, n,
                                            factors, sums + r * 2 * kLanes);
    }
    for (; r < n_rows; ++r) {
      multiply_rows<1, kVectors>(rows + r * row_stride, row_stride, step, columns, n, factors,
                                 sums + r * 2 * kLanes);
    }
  }

 private:
  template <size_t kRows, size_t kVectors>
  static HWY_INLINE void multiply_rows(const uint32_t* HWY_RESTRICT rows, size_t row_stride,
                                       size_t step, const uint32_t* HWY_RESTRICT columns, size_t n,
                                       const VF32* factors, float* HWY_RESTRICT sums) {
    const F32 d;
    const float* a = reinterpret_cast<const float*>(rows);
    const float* b = reinterpret_cast<const float*>(columns);
    VF32 s[kRows][kVectors];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (size_t h = 0; h < kVectors; ++h) {
        s[r][h] = factors != nullptr
                      ? hn::Mul(hn::LoadU(d, sums + (r * 2 + h) * kLanes), factors[h])
                      : hn::Zero(d);
      }
    }
    for (size_t i = 0; i < n; ++i, a += step, b += 2 * kLanes) {
      const VF32 c0 = hn::LoadU(d, b), c1 = hn::LoadU(d, b + (kVectors - 1) * kLanes);
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        const VF32 x = hn::Set(d, a[r * row_stride]);
        s[r][0] = Op::add(x, c0, s[r][0]);
        if constexpr (kVectors == 2) s[r][1] = Op::add(x, c1, s[r][1]);
      }
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (size_t h = 0; h < kVectors; ++h) hn::StoreU(s[r][h], d, sums + (r * 2 + h) * kLanes);
    }
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
// AMX tiles of bf16: 32 rows by two vectors at a time. n is a multiple of 16, step is 1. Rows up to
// the next multiple of 16 are read, and their sums written.
struct TileProduct {
  static constexpr size_t kPerUnit = 2;
  static constexpr uint32_t kKeyStep = 2 * kTileRows;
  static constexpr bool kTransposesValues = true;
  static size_t key_units(size_t head_dim) { return (head_dim + 31) / 32 * 16; }
  VESPER_AMX_TILES static void begin() { _tile_loadconfig(&kTileConfig); }
  VESPER_AMX_TILES static void end() { _tile_release(); }

  template <size_t kVectors>
  VESPER_AMX_TILES static void multiply(const uint32_t* rows, size_t row_stride, size_t,
                                        size_t n_rows, const uint32_t* columns, size_t n,
                                        const VF32* factors, float* sums) {
    constexpr size_t kUnits = 16, kColumns = 2 * kUnits, kStride = kColumns * sizeof(float);
    const size_t row_bytes = row_stride * sizeof(uint32_t);
    const F32 d;
    for (size_t r = 0; r < n_rows; r += 2 * kTileRows) {
      const bool two_rows = r + kTileRows < n_rows;
      float *out = sums + r * kColumns, *out1 = out + kTileRows * kColumns;
      if (factors != nullptr) {
        for (size_t i = 0; i < (two_rows ? 2 : 1) * kTileRows * kColumns; i += kColumns) {
          for (size_t h = 0; h < kVectors; ++h) {
            float* at = out + i + h * kUnits;
            hn::StoreU(hn::Mul(hn::LoadU(d, at), factors[h]), d, at);
          }
        }
        _tile_loadd(0, out, kStride);
        if (kVectors == 2) _tile_loadd(1, out + kUnits, kStride);
        if (two_rows) _tile_loadd(2, out1, kStride);
        if (two_rows && kVectors == 2) _tile_loadd(3, out1 + kUnits, kStride);
      } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
      }
      const uint32_t *a = rows + r * row_stride, *b = columns;
      for (size_t i = 0; i < n; i += kUnits, a += kUnits, b += kUnits * kColumns) {
        _tile_loadd(4, a, row_bytes);
        _tile_loadd(6, b, kStride);
        _tile_dpbf16ps(0, 4, 6);
        if (kVectors == 2) {
          _tile_loadd(7, b + kUnits, kStride);
          _tile_dpbf16ps(1, 4, 7);
        }
        if (!two_rows) continue;
        _tile_loadd(5, a + kTileRows * row_stride, row_bytes);
        _tile_dpbf16ps(2, 5, 6);
        if (kVectors == 2) _tile_dpbf16ps(3, 5, 7);
      }
      _tile_stored(0, out, kStride);
      if (kVectors == 2) _tile_stored(1, out + kUnits, kStride);
      if (!two_rows) continue;
      _tile_stored(2, out1, kStride);
      if (kVectors == 2) _tile_stored(3, out1 + kUnits, kStride);
    }
  }
};
#else
using TileProduct = VectorProduct<MultiplyF32>;
#endif

// State of the online softmax for a vector of queries.
template <class D>
struct RunningSoftmax {
  hn::Vec<D> largest;  // unscaled; kNoScore at first
  hn::Vec<D> sum;      // of 2^(factor * (score - largest)); 0 at first
};

// Replaces the scores [n_keys][2 vectors] of a vector of queries by probabilities relative to the
// largest score so far, and those up to n_padded by zeros. bf16 (not kPrecise): the probabilities
// of two keys together, [n_padded / 2][2 vectors]. `first` is the position of the first key; even
// and odd positions have separate sums. Returns the factor of earlier sums: exactly 1 if no score
// is larger, so keys that a query does not see change nothing.
template <bool kPrecise, class D>
HWY_INLINE hn::Vec<D> to_probabilities(D d, float* HWY_RESTRICT scores, size_t first, size_t n_keys,
                                       size_t n_padded, float factor, RunningSoftmax<D>& running) {
  using V = hn::Vec<D>;
  const size_t width = 2 * hn::Lanes(d);
  V m[4] = {running.largest, running.largest, running.largest, running.largest};
  size_t key = 0;
  for (; key + 4 <= n_keys; key += 4) {
    for (size_t i = 0; i < 4; ++i) m[i] = hn::Max(m[i], hn::LoadU(d, scores + (key + i) * width));
  }
  for (; key < n_keys; ++key) m[0] = hn::Max(m[0], hn::LoadU(d, scores + key * width));
  const V largest = hn::Max(hn::Max(m[0], m[1]), hn::Max(m[2], m[3]));
  const V factors = hn::Set(d, factor);
  const V shift = hn::Mul(largest, factors);
  V correction = exp2_of<true>(d, hn::Mul(hn::Sub(running.largest, largest), factors));
  correction = hn::IfThenElse(hn::Eq(running.largest, largest), hn::Set(d, 1.0f), correction);
  V even = hn::Mul(running.sum, correction), odd = hn::Zero(d);
  const auto probability = [&](size_t at) HWY_ATTR {
    return exp2_of<kPrecise>(d, hn::MulSub(hn::LoadU(d, scores + at * width), factors, shift));
  };
  key = 0;
  if constexpr (kPrecise) {
    const auto add = [&](size_t at, V& sum) HWY_ATTR {
      const V p = probability(at);
      sum = hn::Add(sum, p);
      hn::StoreU(p, d, scores + at * width);
    };
    if (first % 2 != 0) add(key++, odd);
    for (; key + 2 <= n_keys; key += 2) {
      add(key, even);
      add(key + 1, odd);
    }
    if (key < n_keys) add(key, even);
  } else {
    // Sums rounded probabilities, so that the weights of all values add up to one (base's worst
    // row: a cosine of 0.982 with f32, 0.964 otherwise).
    const hn::RebindToUnsigned<D> du;
    const auto rounded = [&](size_t at) HWY_ATTR {
      return hn::And(hn::Add(hn::BitCast(du, probability(at)), hn::Set(du, 0x8000)),
                     hn::Set(du, 0xFFFF0000u));
    };
    for (; key < n_keys; key += 2) {
      const auto p0 = rounded(key), p1 = key + 1 < n_keys ? rounded(key + 1) : hn::Zero(du);
      even = hn::Add(even, hn::BitCast(d, p0));
      odd = hn::Add(odd, hn::BitCast(d, p1));
      hn::StoreU(hn::BitCast(d, hn::Or(hn::ShiftRight<16>(p0), p1)), d, scores + key / 2 * width);
    }
    for (; key < n_padded; key += 2) hn::StoreU(hn::Zero(d), d, scores + key / 2 * width);
  }
  running.largest = largest;
  running.sum = hn::Add(even, odd);
  return correction;
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif

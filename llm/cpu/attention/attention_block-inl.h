// What attention over blocks of keys is made of, for encoders and prompts: queries lie in the lanes
// of two vectors, so that softmax never adds across lanes. What is multiplied lies in units of 32
// bits, one f32 or two bf16. Written with Highway, compiled once for each instruction set (hence no
// include guard of the usual kind).
#if defined(VESPER_LLM_CPU_ATTENTION_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_ATTENTION_BLOCK_INL_H_
#undef VESPER_LLM_CPU_ATTENTION_BLOCK_INL_H_
#else
#define VESPER_LLM_CPU_ATTENTION_BLOCK_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "llm/cpu/matmul/multiply_add-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows that are multiplied with two vectors at once: as many as registers hold the sums of.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr size_t kBlockUnroll = 8;
#else
inline constexpr size_t kBlockUnroll = 4;
#endif

// Below every score and above minus infinity, so that differences stay numbers where a query sees
// none of a block's keys.
inline constexpr float kNoScore = -1e30f;
inline constexpr float kLog2E = 1.44269504f;

// 2^x for x <= 0, to 8e-8 of itself, or 8e-5 where the result is rounded to bf16; less than 2^-126
// may be 0. The polynomials are those of least relative error on [0, 1).
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

// sums[r][2 vectors] = sums[r] * factors + sum over i of rows[r * row_stride + i * step] *
// columns[i][2 vectors], for kRows rows and n units; without factors what was in sums is forgotten.
// The one product under both scores (rows are keys, columns transposed queries) and weighted values
// (rows are dimensions of the values, columns probabilities). Of the two vectors the first kVectors
// are computed.
template <class Op, size_t kRows, size_t kVectors, class D>
HWY_INLINE void multiply_add(D d, const uint32_t* HWY_RESTRICT rows, size_t row_stride, size_t step,
                             const uint32_t* HWY_RESTRICT columns, size_t n,
                             const hn::Vec<D>* factors, float* HWY_RESTRICT sums) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  const float* a = reinterpret_cast<const float*>(rows);
  const float* b = reinterpret_cast<const float*>(columns);
  V s[kRows][kVectors];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (size_t h = 0; h < kVectors; ++h) {
      s[r][h] = factors != nullptr ? hn::Mul(hn::LoadU(d, sums + (r * 2 + h) * lanes), factors[h])
                                   : hn::Zero(d);
    }
  }
  for (size_t i = 0; i < n; ++i, a += step, b += 2 * lanes) {
    const V c0 = hn::LoadU(d, b), c1 = hn::LoadU(d, b + (kVectors - 1) * lanes);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, a[r * row_stride]);
      s[r][0] = Op::add(x, c0, s[r][0]);
      if constexpr (kVectors == 2) s[r][1] = Op::add(x, c1, s[r][1]);
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (size_t h = 0; h < kVectors; ++h) hn::StoreU(s[r][h], d, sums + (r * 2 + h) * lanes);
  }
}

// What the online softmax carries for a vector of queries from block to block.
template <class D>
struct RunningSoftmax {
  hn::Vec<D> largest;  // score so far, unscaled; kNoScore at first
  hn::Vec<D> sum;      // of 2^(factor * (score - largest)); 0 at first
};

// Turns the scores [n_keys][2 vectors] of a vector of queries, in their place, into probabilities
// relative to the largest score so far, for bf16 those of two keys side by side: rows of n_keys / 2
// units, rounded up. Returns what earlier sums are to be multiplied with; with kKeepsUnchanged
// exactly 1 where nothing is larger, so that keys which a query does not see change nothing.
template <class Op, bool kKeepsUnchanged, class D>
HWY_INLINE hn::Vec<D> to_probabilities(D d, float* HWY_RESTRICT scores, size_t n_keys, float factor,
                                       RunningSoftmax<D>& running) {
  using V = hn::Vec<D>;
  constexpr bool kPrecise = Op::kPerUnit == 1;
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
  V correction = exp2_of < kPrecise ||
                 kKeepsUnchanged > (d, hn::Mul(hn::Sub(running.largest, largest), factors));
  if constexpr (kKeepsUnchanged) {
    correction = hn::IfThenElse(hn::Eq(running.largest, largest), hn::Set(d, 1.0f), correction);
  }
  V sums[2] = {hn::Mul(running.sum, correction), hn::Zero(d)};
  const auto probability = [&](size_t at) HWY_ATTR {
    return exp2_of<kPrecise>(d, hn::MulSub(hn::LoadU(d, scores + at * width), factors, shift));
  };
  // bf16: the sums are of what is left after rounding, so that the weights of all values add up to
  // one (base's worst row: a cosine of 0.982 with f32, of 0.964 without).
  const hn::RebindToUnsigned<D> du;
  const auto rounded = [&](V p) HWY_ATTR {
    return hn::And(hn::Add(hn::BitCast(du, p), hn::Set(du, 0x8000)), hn::Set(du, 0xFFFF0000u));
  };
  for (key = 0; key < n_keys; key += 2) {
    const bool has_second = key + 1 < n_keys;
    const V p0 = probability(key), p1 = has_second ? probability(key + 1) : hn::Zero(d);
    if constexpr (kPrecise) {
      sums[0] = hn::Add(sums[0], p0);
      sums[1] = hn::Add(sums[1], p1);
      hn::StoreU(p0, d, scores + key * width);
      if (has_second) hn::StoreU(p1, d, scores + (key + 1) * width);
    } else {
      const auto bits0 = rounded(p0), bits1 = rounded(p1);
      sums[0] = hn::Add(sums[0], hn::BitCast(d, bits0));
      sums[1] = hn::Add(sums[1], hn::BitCast(d, bits1));
      hn::StoreU(hn::BitCast(d, hn::Or(hn::ShiftRight<16>(bits0), bits1)), d,
                 scores + key / 2 * width);
    }
  }
  running.largest = largest;
  running.sum = hn::Add(sums[0], sums[1]);
  return correction;
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif

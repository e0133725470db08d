// What attention over blocks of keys is made of, for prompts: queries lie in the lanes
// of two vectors, so that softmax never adds across lanes. Written with Highway, compiled once for
// each instruction set (hence no include guard of the usual kind).
#if defined(VESPER_LLM_CPU_ATTENTION_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_ATTENTION_BLOCK_INL_H_
#undef VESPER_LLM_CPU_ATTENTION_BLOCK_INL_H_
#else
#define VESPER_LLM_CPU_ATTENTION_BLOCK_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

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

// 2^x for x <= 0, to 2e-8 of itself before rounding, and 0 below -126; the polynomial is fitted at
// Chebyshev nodes of [-1/2, 1/2].
template <class D>
HWY_INLINE hn::Vec<D> exp2_f32(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const auto least = hn::Set(d, -126.0f);
  const auto is_there = hn::Ge(x, least);
  x = hn::Max(x, least);
  const auto n = hn::NearestInt(x);
  const auto f = hn::Sub(x, hn::ConvertTo(d, n));
  auto y = hn::MulAdd(f, hn::Set(d, 0.00015469731968f), hn::Set(d, 0.00134004332160f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.00961802560300f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.05550327214207f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.24022651213594f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.69314720671062f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.99999999995955f));
  y = hn::Mul(y, hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127)))));
  return hn::IfThenElseZero(is_there, y);
}

// sums[r][2 vectors] = or += sum over i of rows[r * row_stride + i * step] * columns[i][2 vectors],
// for kRows rows: the one product under both scores (rows are keys, columns transposed queries) and
// weighted values (rows are dimensions of the values, columns probabilities).
template <size_t kRows, class D>
HWY_INLINE void multiply_add(D d, const float* HWY_RESTRICT rows, size_t row_stride, size_t step,
                             const float* HWY_RESTRICT columns, size_t n, bool accumulate,
                             float* HWY_RESTRICT sums) {
  const size_t lanes = hn::Lanes(d);
  hn::Vec<D> s[kRows][2];
  for (size_t r = 0; r < kRows; ++r) {
    s[r][0] = accumulate ? hn::LoadU(d, sums + r * 2 * lanes) : hn::Zero(d);
    s[r][1] = accumulate ? hn::LoadU(d, sums + r * 2 * lanes + lanes) : hn::Zero(d);
  }
  for (size_t i = 0; i < n; ++i) {
    const auto c0 = hn::LoadU(d, columns + i * 2 * lanes);
    const auto c1 = hn::LoadU(d, columns + i * 2 * lanes + lanes);
    for (size_t r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, rows[r * row_stride + i * step]);
      s[r][0] = hn::MulAdd(x, c0, s[r][0]);
      s[r][1] = hn::MulAdd(x, c1, s[r][1]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    hn::StoreU(s[r][0], d, sums + r * 2 * lanes);
    hn::StoreU(s[r][1], d, sums + r * 2 * lanes + lanes);
  }
}

// The running softmax of two vectors of queries.
template <class D>
struct RunningSoftmax {
  hn::Vec<D> largest[2], total[2];

  HWY_INLINE void begin(D d) {
    for (size_t h = 0; h < 2; ++h) {
      largest[h] = hn::Set(d, kNoScore);
      total[h] = hn::Zero(d);
    }
  }
  // From and to f32 [2][2 vectors].
  HWY_INLINE void load(D d, const float* from) {
    const size_t lanes = hn::Lanes(d);
    for (size_t h = 0; h < 2; ++h) {
      largest[h] = hn::LoadU(d, from + h * lanes);
      total[h] = hn::LoadU(d, from + (2 + h) * lanes);
    }
  }
  HWY_INLINE void store(D d, float* to) const {
    const size_t lanes = hn::Lanes(d);
    for (size_t h = 0; h < 2; ++h) {
      hn::StoreU(largest[h], d, to + h * lanes);
      hn::StoreU(total[h], d, to + (2 + h) * lanes);
    }
  }
  // Scores [n_keys][2 vectors], as powers of 2, become weights relative to the largest so far; what
  // was summed by the weights before, [n_sums][2 vectors], follows where there is any.
  HWY_INLINE void take(D d, float* HWY_RESTRICT scores, size_t n_keys, float* HWY_RESTRICT sums,
                       size_t n_sums) {
    const size_t lanes = hn::Lanes(d), width = 2 * lanes;
    for (size_t h = 0; h < 2; ++h) {
      float* s = scores + h * lanes;
      auto m = largest[h];
      for (size_t i = 0; i < n_keys; ++i) m = hn::Max(m, hn::LoadU(d, s + i * width));
      const auto correction = exp2_f32(d, hn::Sub(largest[h], m));
      largest[h] = m;
      auto sum = hn::Mul(total[h], correction);
      for (size_t i = 0; i < n_keys; ++i) {
        const auto e = exp2_f32(d, hn::Sub(hn::LoadU(d, s + i * width), m));
        sum = hn::Add(sum, e);
        hn::StoreU(e, d, s + i * width);
      }
      total[h] = sum;
      for (size_t j = 0; j < n_sums; ++j) {
        float* at = sums + j * width + h * lanes;
        hn::StoreU(hn::Mul(hn::LoadU(d, at), correction), d, at);
      }
    }
  }
  HWY_INLINE void finish(D d, float* HWY_RESTRICT sums, size_t n_sums) const {
    const size_t lanes = hn::Lanes(d), width = 2 * lanes;
    for (size_t h = 0; h < 2; ++h) {
      for (size_t j = 0; j < n_sums; ++j) {
        float* at = sums + j * width + h * lanes;
        hn::StoreU(hn::Div(hn::LoadU(d, at), total[h]), d, at);
      }
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif

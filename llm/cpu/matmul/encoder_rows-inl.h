// Rows of an encoder's products on their way in and out: conversion to the format of the product,
// and bias, GELU, residual and conversion of its result. Written with Highway, compiled once for
// each instruction set (hence no include guard of the usual kind).
#if defined(VESPER_LLM_CPU_ENCODER_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_ENCODER_ROWS_INL_H_
#undef VESPER_LLM_CPU_ENCODER_ROWS_INL_H_
#else
#define VESPER_LLM_CPU_ENCODER_ROWS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "llm/cpu/numbers-inl.h"
#include "llm/cpu/rows/f16_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// bf16 is handled as its 16 bits, f16 as Highway's type.
using Bf16Bits = uint16_t;

template <class DF>
HWY_INLINE hn::Vec<DF> load_f32(DF d, const float* from) {
  return hn::LoadU(d, from);
}
template <class DF>
HWY_INLINE hn::Vec<DF> load_f32(DF d, const hwy::float16_t* from) {
  const hn::Rebind<hwy::float16_t, DF> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, from));
}
template <class DF>
HWY_INLINE hn::Vec<DF> load_f32(DF d, const Bf16Bits* from) {
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<uint16_t, DF> d16;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, from))));
}

template <class DF, class V = hn::Vec<DF>>
HWY_INLINE void store_f32(DF d, V v, float* to) {
  hn::StoreU(v, d, to);
}
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE void store_f32(DF d, V v, hwy::float16_t* to) {
  store_f16(d, v, &to->bits);
}
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE void store_f32(DF /*d*/, V v, Bf16Bits* to) {  // to nearest, ties to even
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint16_t, DF> d16;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFF)), odd);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::ShiftRight<16>(rounded))), d16, to);
}

// Exact GELU, x (1 + erf(x / sqrt 2)) / 2. With z = |x| / sqrt 2 clamped to L, erf(z) / z is a
// polynomial in u = 2 z^2 / L^2 - 1, fitted at Chebyshev nodes: error of the result at most 4e-7
// (L = 3.92, kPrecise) or 7e-5 (L = 3, for outputs of 16 bits).
template <bool kPrecise, class DF, class V = hn::Vec<DF>>
HWY_INLINE V gelu(DF d, V x) {
  constexpr float kLimit = kPrecise ? 3.92f : 3.0f;
  const V z = hn::Max(hn::Min(hn::Mul(x, hn::Set(d, 0.70710678f)), hn::Set(d, kLimit)),
                      hn::Set(d, -kLimit));
  const V u = hn::MulAdd(hn::Mul(z, z), hn::Set(d, 2.0f / (kLimit * kLimit)), hn::Set(d, -1.0f));
  V p;
  if constexpr (kPrecise) {
    constexpr float kTerms[] = {-0.000939271937f, 0.00212785811f, -0.00104527804f, 0.00182033039f,
                                -0.00817048363f,  0.014343502f,   -0.0196174905f,  0.0296092127f,
                                -0.0435857326f,   0.0584258288f,  -0.0739898905f,  0.090592213f,
                                -0.109181851f,    0.134084836f,   -0.180108562f,   0.360736817f};
    p = hn::Set(d, kTerms[0]);
    for (size_t i = 1; i < sizeof(kTerms) / sizeof(kTerms[0]); ++i) {
      p = hn::MulAdd(p, u, hn::Set(d, kTerms[i]));
    }
  } else {
    constexpr float kTerms[] = {0.0082701426f,  -0.0185770225f, 0.021593133f,
                                -0.0386645123f, 0.0734755322f,  -0.111587308f,
                                0.157376945f,   -0.228684098f,  0.470134258f};
    p = hn::Set(d, kTerms[0]);
    for (size_t i = 1; i < sizeof(kTerms) / sizeof(kTerms[0]); ++i) {
      p = hn::MulAdd(p, u, hn::Set(d, kTerms[i]));
    }
  }
  const V half_x = hn::Mul(x, hn::Set(d, 0.5f));
  return hn::MulAdd(half_x, hn::Mul(z, p), half_x);
}

// kActivation*, up to kActivationSigmoid.
template <bool kPrecise, class DF, class V = hn::Vec<DF>>
HWY_INLINE V activate(DF d, uint32_t activation, V x) {
  if (activation == kActivationGelu) return gelu<kPrecise>(d, x);
  return activation == kActivationNone ? x : activate(activation, x);
}

// out[i] = residual[i] + activation(bias[i] + acc[i] * row_scale * column_scale[i]) for n elements.
// `acc` is readable up to the next multiple of a vector. Null pointers stand for absent operands.
// `residual` may be `out`.
template <class Acc, class Out>
HWY_INLINE void finish_row(const Acc* HWY_RESTRICT acc, size_t n, float row_scale,
                           const float* column_scale, const float* bias, uint32_t activation,
                           const float* residual, Out* out) {
  constexpr bool kPrecise = std::is_same_v<Out, float>;
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto finish = [&](const Acc* a, const float* scales, const float* b, const float* r, Out* o)
                          HWY_ATTR {
                            hn::Vec<decltype(d)> x;
                            if constexpr (std::is_same_v<Acc, int32_t>) {
                              x = hn::ConvertTo(d, hn::LoadU(hn::RebindToSigned<decltype(d)>(), a));
                            } else {
                              x = hn::LoadU(d, a);
                            }
                            if (scales)
                              x = hn::Mul(x, hn::Mul(hn::Set(d, row_scale), hn::LoadU(d, scales)));
                            if (b) x = hn::Add(x, hn::LoadU(d, b));
                            x = activate<kPrecise>(d, activation, x);
                            if (r) x = hn::Add(x, hn::LoadU(d, r));
                            store_f32(d, x, o);
                          };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    finish(acc + i, column_scale ? column_scale + i : nullptr, bias ? bias + i : nullptr,
           residual ? residual + i : nullptr, out + i);
  }
  if (i == n) return;
  float part[3][HWY_MAX_BYTES / sizeof(float)] = {};  // the last, shorter vector
  const float* sources[3] = {column_scale, bias, residual};
  for (size_t s = 0; s < 3; ++s) {
    if (sources[s]) std::memcpy(part[s], sources[s] + i, (n - i) * sizeof(float));
  }
  Out last[HWY_MAX_BYTES / sizeof(float)];
  finish(acc + i, column_scale ? part[0] : nullptr, bias ? part[1] : nullptr,
         residual ? part[2] : nullptr, last);
  std::memcpy(out + i, last, (n - i) * sizeof(Out));
}

// Converts n elements to f32 or bf16.
template <class In, class Out>
HWY_INLINE void convert_row(const In* HWY_RESTRICT in, size_t n, Out* HWY_RESTRICT out) {
  if constexpr (std::is_same_v<In, Out>) {
    std::memcpy(out, in, n * sizeof(In));
  } else {
    const hn::ScalableTag<float> d;
    const size_t lanes = hn::Lanes(d);
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) store_f32(d, load_f32(d, in + i), out + i);
    if (i == n) return;
    In first[HWY_MAX_BYTES / sizeof(float)] = {};
    Out last[HWY_MAX_BYTES / sizeof(float)];
    std::memcpy(first, in + i, (n - i) * sizeof(In));
    store_f32(d, load_f32(d, first), last);
    std::memcpy(out + i, last, (n - i) * sizeof(Out));
  }
}

// Splits n finite elements into three bf16 each, whose sum they are exactly.
template <class In>
HWY_INLINE void split_row(const In* HWY_RESTRICT in, size_t n, Bf16Bits* first, Bf16Bits* second,
                          Bf16Bits* third) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  Bf16Bits* const parts[3] = {first, second, third};
  const auto split = [&](const In* from, size_t at, size_t n_kept) HWY_ATTR {
    auto left = load_f32(d, from);
    for (Bf16Bits* const part : parts) {
      Bf16Bits rounded[HWY_MAX_BYTES / sizeof(float)];
      store_f32(d, left, rounded);
      left = hn::Sub(left, load_f32(d, rounded));
      std::memcpy(part + at, rounded, n_kept * sizeof(Bf16Bits));
    }
  };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) split(in + i, i, lanes);
  if (i == n) return;
  In last[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(last, in + i, (n - i) * sizeof(In));
  split(last, i, n - i);
}

// The scale that maps n elements to -127..127, max |in| / 127; 0 for a row of zeros.
template <class In>
HWY_INLINE float row_scale_i8(const In* HWY_RESTRICT in, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto largest = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) largest = hn::Max(largest, hn::Abs(load_f32(d, in + i)));
  if (i < n) {
    In first[HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(first, in + i, (n - i) * sizeof(In));
    largest = hn::Max(largest, hn::Abs(load_f32(d, first)));
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest)) / 127.0f;
}

// out[i] = round(in[i] / scale), to nearest, ties to even.
template <class In>
HWY_INLINE void quantize_row(const In* HWY_RESTRICT in, size_t n, float scale,
                             int8_t* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  const auto inverse = hn::Set(d, scale > 0.0f ? 1.0f / scale : 0.0f);
  const auto quantize = [&](const In* from, int8_t* to) HWY_ATTR {
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(hn::Mul(load_f32(d, from), inverse))), d8, to);
  };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) quantize(in + i, out + i);
  if (i == n) return;
  In first[HWY_MAX_BYTES / sizeof(float)] = {};
  int8_t last[HWY_MAX_BYTES / sizeof(float)];
  std::memcpy(first, in + i, (n - i) * sizeof(In));
  quantize(first, last);
  std::memcpy(out + i, last, (n - i) * sizeof(int8_t));
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif

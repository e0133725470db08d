// Vectors of f32 from and to the formats of buffers and weights, and exp and erf. Compiled once per
// instruction set (Highway's foreach_target), so there is no plain include guard.
#if defined(VESPER_LLM_CPU_NUMBERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_NUMBERS_INL_H_
#undef VESPER_LLM_CPU_NUMBERS_INL_H_
#else
#define VESPER_LLM_CPU_NUMBERS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "llm/cpu/rows/f16_store-inl.h"
#include "llm/dtype/number_conversion.h"
#include "shaders/kernel_params.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VF32 = hn::Vec<F32>;
inline constexpr uint32_t kLanes = hn::MaxLanes(F32());

// Element types of buffers: raw bits of the 16-bit formats.
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

HWY_INLINE VF32 load_f32(const float* from) { return hn::LoadU(F32(), from); }
HWY_INLINE VF32 load_f32(const F16* from) {
  const hn::Rebind<hwy::float16_t, F32> d16;
  return hn::PromoteTo(F32(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
}
HWY_INLINE VF32 load_f32(const BF16* from) {
  const hn::Rebind<uint16_t, F32> d16;
  const hn::Rebind<uint32_t, F32> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, &from->bits));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(bits));
}

HWY_INLINE void store_f32(VF32 value, float* to) { hn::StoreU(value, F32(), to); }
HWY_INLINE void store_f32(VF32 value, F16* to) { store_f16(F32(), value, &to->bits); }
// A NaN stays NaN if its upper 16 bits are one, as in every NaN of an operation.
HWY_INLINE void store_f32(VF32 value, BF16* to) {
  const hn::Rebind<uint16_t, F32> d16;
  const hn::Rebind<uint32_t, F32> d32;
  const hn::Rebind<int32_t, F32> di32;
  const auto bits = hn::BitCast(d32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(hn::Set(d32, 0x7fff), odd)));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, rounded)), d16, &to->bits);
}

inline float to_f32(float value) { return value; }
inline float to_f32(F16 value) { return f16_to_f32(value.bits); }
inline float to_f32(BF16 value) { return bf16_to_f32(value.bits); }
inline void put_f32(float value, float* to) { *to = value; }
inline void put_f32(float value, F16* to) { to->bits = f32_to_f16(value); }
inline void put_f32(float value, BF16* to) { to->bits = f32_to_bf16(value); }

// Calls body(pointer) with `data` as a pointer to the type of `dtype`.
template <class Body>
HWY_INLINE void with_type(uint32_t dtype, const void* data, const Body& body) {
  if (dtype == kDTypeF32) body(static_cast<const float*>(data));
  if (dtype == kDTypeF16) body(static_cast<const F16*>(data));
  if (dtype == kDTypeBF16) body(static_cast<const BF16*>(data));
}
template <class Body>
HWY_INLINE void with_type(uint32_t dtype, void* data, const Body& body) {
  if (dtype == kDTypeF32) body(static_cast<float*>(data));
  if (dtype == kDTypeF16) body(static_cast<F16*>(data));
  if (dtype == kDTypeBF16) body(static_cast<BF16*>(data));
}

// `from` is a pointer, or a row of another format with load_f32 and to_f32.
template <class From, class To>
HWY_INLINE void convert(From from, size_t n, To* to) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_f32(load_f32(from + i), to + i);
  for (; i < n; ++i) put_f32(to_f32(from[i]), to + i);
}

// to [n] = elements first to first + n of `from`, whose type is `dtype`.
HWY_INLINE void read_numbers(uint32_t dtype, const void* from, size_t first, size_t n, float* to) {
  with_type(dtype, from, [&](const auto* numbers) { convert(numbers + first, n, to); });
}

// erf by Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: error below 1.5e-7.
HWY_INLINE VF32 erf(VF32 x) {
  const F32 d;
  const VF32 z = hn::Abs(x);
  const VF32 t = hn::Div(hn::Set(d, 1.0f), hn::MulAdd(hn::Set(d, 0.3275911f), z, hn::Set(d, 1.0f)));
  VF32 p = hn::Set(d, 1.061405429f);
  p = hn::MulAdd(p, t, hn::Set(d, -1.453152027f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.421413741f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.284496736f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.254829592f));
  // erf is exactly 1 beyond 9; larger values would make exp subnormal.
  const VF32 bounded = hn::Min(z, hn::Set(d, 9.0f));
  const VF32 e = hn::Exp(d, hn::Neg(hn::Mul(bounded, bounded)));
  return hn::CopySign(hn::NegMulAdd(hn::Mul(p, t), e, hn::Set(d, 1.0f)), x);
}

HWY_INLINE VF32 gelu(VF32 x) {
  const F32 d;
  const VF32 half = hn::Mul(hn::Set(d, 0.5f), x);
  return hn::MulAdd(half, erf(hn::Mul(x, hn::Set(d, 0.70710678f))), half);
}

HWY_INLINE VF32 sigmoid(VF32 x) {
  const F32 d;
  // keeps exp finite
  const VF32 bounded = hn::Min(hn::Neg(x), hn::Set(d, 88.0f));
  return hn::Div(hn::Set(d, 1.0f), hn::Add(hn::Set(d, 1.0f), hn::Exp(d, bounded)));
}

// kActivation*, up to kActivationSigmoid.
HWY_INLINE VF32 activate(uint32_t activation, VF32 x) {
  const F32 d;
  switch (activation) {
    case kActivationGelu:
      return gelu(x);
    case kActivationGeluTanh: {  // (1 + tanh(y)) / 2 = sigmoid(2 y)
      const VF32 cubic = hn::MulAdd(hn::Mul(hn::Set(d, 0.044715f), hn::Mul(x, x)), x, x);
      return hn::Mul(x, sigmoid(hn::Mul(hn::Set(d, 2 * 0.7978845608f), cubic)));
    }
    case kActivationSilu:
      return hn::Mul(x, sigmoid(x));
    case kActivationRelu:
      return hn::Max(x, hn::Zero(d));
    case kActivationSigmoid:
      return sigmoid(x);
    default:
      return x;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif

// In place of Highway: the operations that llm/cpu uses, on vectors of 512 bits that the compiler
// cuts into vectors of AVX2. Kernels are compiled once, as for AVX-512.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#define HWY_ARCH_X86 1
#define HWY_ARCH_ARM_A64 0
// Better instruction sets have lower numbers.
#define HWY_AVX3 1
#define HWY_AVX2 2
#define HWY_SCALAR 3
#define HWY_EMU128 4
#define HWY_TARGET HWY_AVX3
#define HWY_TARGET_STR "avx2"  // of functions that add instructions
#define HWY_NAMESPACE N_VECTOR_MODEL
#define HWY_ONCE 1
#define HWY_BEFORE_NAMESPACE() static_assert(true)
#define HWY_AFTER_NAMESPACE() static_assert(true)
#define HWY_ATTR
#define HWY_INLINE __attribute__((always_inline)) inline
#define HWY_NOINLINE __attribute__((noinline, unused))
#define HWY_RESTRICT __restrict__
#define HWY_UNROLL(n)
#define HWY_EXPORT(function) static_assert(true)
#define HWY_DYNAMIC_DISPATCH(function) (&HWY_NAMESPACE::function)

namespace hwy {

struct float16_t {
  uint16_t bits;
};

namespace HWY_NAMESPACE {

template <class T, size_t kLanes>
struct Tag {
  using Lane = T;
  static constexpr size_t kSize = kLanes;
  constexpr Tag() {}
};
template <class D>
using TFromD = typename D::Lane;
template <class T>
using ScalableTag = Tag<T, 64 / sizeof(T)>;
template <class T, class D>
using Rebind = Tag<T, D::kSize>;
template <class T, class D>
using Repartition = Tag<T, D::kSize * sizeof(TFromD<D>) / sizeof(T)>;
template <class D>
using RebindToSigned =
    Rebind<std::make_signed_t<std::conditional_t<sizeof(TFromD<D>) == 4, int32_t, int16_t>>, D>;
template <class D>
using RebindToUnsigned =
    Rebind<std::make_unsigned_t<std::conditional_t<sizeof(TFromD<D>) == 4, int32_t, int16_t>>, D>;

template <class T>
using Stored = std::conditional_t<std::is_same_v<T, float16_t>, uint16_t, T>;
template <class T, size_t kLanes>
struct Vector {
  typedef Stored<T> Raw __attribute__((vector_size(kLanes * sizeof(T))));
  Raw raw;
};
template <class D>
using Vec = Vector<TFromD<D>, D::kSize>;
// -1 or 0 in each lane.
template <class T, size_t kLanes>
struct Mask {
  using Raw = decltype(typename Vector<T, kLanes>::Raw{} < typename Vector<T, kLanes>::Raw{});
  Raw raw;
};

template <class D>
constexpr size_t Lanes(D) {
  return D::kSize;
}
template <class D>
constexpr size_t MaxLanes(D) {
  return D::kSize;
}

// Lane i of the result is body(i).
template <class D, class Body>
HWY_INLINE Vec<D> each(D, const Body& body) {
  Vec<D> v{};
  for (size_t i = 0; i < D::kSize; ++i) v.raw[i] = body(i);
  return v;
}

template <class D>
HWY_INLINE Vec<D> Zero(D) {
  return Vec<D>{};
}
template <class D, class T>
HWY_INLINE Vec<D> Set(D, T value) {
  return {typename Vec<D>::Raw{} + static_cast<TFromD<D>>(value)};
}
template <class D>
HWY_INLINE Vec<D> LoadU(D, const TFromD<D>* from) {
  Vec<D> v;
  std::memcpy(&v.raw, from, sizeof v.raw);
  return v;
}
template <class T, size_t N>
HWY_INLINE void StoreU(Vector<T, N> v, Tag<T, N>, T* to) {
  std::memcpy(to, &v.raw, sizeof v.raw);
}
template <class T, size_t N>
HWY_INLINE void StoreInterleaved2(Vector<T, N> a, Vector<T, N> b, Tag<T, N>, T* to) {
  for (size_t i = 0; i < N; ++i) {
    to[2 * i] = a.raw[i];
    to[2 * i + 1] = b.raw[i];
  }
}
template <class T, size_t N>
HWY_INLINE T GetLane(Vector<T, N> v) {
  return v.raw[0];
}
template <class D, class From>
HWY_INLINE Vec<D> BitCast(D, From v) {
  Vec<D> to;
  static_assert(sizeof to.raw == sizeof v.raw);
  std::memcpy(&to.raw, &v.raw, sizeof to.raw);
  return to;
}

// Arithmetic of integers wraps around.
template <class T, size_t N, class Body>
HWY_INLINE Vector<T, N> wrapping(Vector<T, N> a, Vector<T, N> b, const Body& body) {
  if constexpr (std::is_floating_point_v<T>) {
    return {body(a.raw, b.raw)};
  } else {
    using Unsigned = typename Vector<std::make_unsigned_t<T>, N>::Raw;
    return {(typename Vector<T, N>::Raw)body((Unsigned)a.raw, (Unsigned)b.raw)};
  }
}
template <class V>
HWY_INLINE V Add(V a, V b) {
  return wrapping(
      a, b, [](auto x, auto y) __attribute__((always_inline)) { return x + y; });
}
template <class V>
HWY_INLINE V Sub(V a, V b) {
  return wrapping(
      a, b, [](auto x, auto y) __attribute__((always_inline)) { return x - y; });
}
template <class V>
HWY_INLINE V Mul(V a, V b) {
  return wrapping(
      a, b, [](auto x, auto y) __attribute__((always_inline)) { return x * y; });
}
template <class V>
HWY_INLINE V Div(V a, V b) {
  return {a.raw / b.raw};
}
template <class V>
HWY_INLINE V Neg(V a) {
  return {-a.raw};
}
template <class V>
HWY_INLINE V MulAdd(V a, V b, V c) {
  return {vesper::vector_model::fmadd(a.raw, b.raw, c.raw)};
}
template <class V>
HWY_INLINE V MulSub(V a, V b, V c) {
  return MulAdd(a, b, Neg(c));
}
template <class V>
HWY_INLINE V NegMulAdd(V a, V b, V c) {
  return MulAdd(Neg(a), b, c);
}
// The second operand if one is NaN.
template <class V>
HWY_INLINE V Max(V a, V b) {
  return {a.raw > b.raw ? a.raw : b.raw};
}
template <class V>
HWY_INLINE V Min(V a, V b) {
  return {a.raw < b.raw ? a.raw : b.raw};
}
template <class T, size_t N>
HWY_INLINE Vector<T, N> MaxOfLanes(Tag<T, N> d, Vector<T, N> v) {
  T most = v.raw[0];
  for (size_t i = 1; i < N; ++i) most = v.raw[i] > most ? v.raw[i] : most;
  return Set(d, most);
}
// Halves are added until one lane is left.
template <class T, size_t N>
HWY_INLINE Vector<T, N> SumOfLanes(Tag<T, N> d, Vector<T, N> v) {
  for (size_t n = N / 2; n > 0; n /= 2) {
    for (size_t i = 0; i < n; ++i) v.raw[i] += v.raw[i + n];
  }
  return Set(d, v.raw[0]);
}

template <class V>
HWY_INLINE auto bits_of(V v) {
  typename Vector<uint32_t, sizeof v.raw / 4>::Raw bits;
  std::memcpy(&bits, &v.raw, sizeof bits);
  return bits;
}
template <class V, class Bits>
HWY_INLINE V from_bits(Bits bits) {
  V v;
  std::memcpy(&v.raw, &bits, sizeof v.raw);
  return v;
}
template <class V>
HWY_INLINE V And(V a, V b) {
  return from_bits<V>(bits_of(a) & bits_of(b));
}
template <class V>
HWY_INLINE V Or(V a, V b) {
  return from_bits<V>(bits_of(a) | bits_of(b));
}
template <class V>
HWY_INLINE V Xor(V a, V b) {
  return from_bits<V>(bits_of(a) ^ bits_of(b));
}
template <class V>
HWY_INLINE V AndNot(V a, V b) {
  return from_bits<V>(~bits_of(a) & bits_of(b));
}
template <class V>
HWY_INLINE V Abs(V a) {
  return {a.raw < 0 ? -a.raw : a.raw};
}
template <size_t N>
HWY_INLINE Vector<float, N> Abs(Vector<float, N> a) {
  return from_bits<Vector<float, N>>(bits_of(a) & 0x7fffffffu);
}
template <class V>
HWY_INLINE V CopySign(V magnitude, V sign) {
  return from_bits<V>((bits_of(magnitude) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}
template <int kBits, class V>
HWY_INLINE V ShiftLeft(V v) {
  return {v.raw << kBits};
}
template <int kBits, class V>
HWY_INLINE V ShiftRight(V v) {
  return {v.raw >> kBits};
}

template <class T, size_t N>
HWY_INLINE Mask<T, N> Eq(Vector<T, N> a, Vector<T, N> b) {
  return {a.raw == b.raw};
}
template <class T, size_t N>
HWY_INLINE Mask<T, N> Lt(Vector<T, N> a, Vector<T, N> b) {
  return {a.raw < b.raw};
}
template <class T, size_t N>
HWY_INLINE Mask<T, N> Ge(Vector<T, N> a, Vector<T, N> b) {
  return {a.raw >= b.raw};
}
template <class T, size_t N>
HWY_INLINE Mask<T, N> AndNot(Mask<T, N> a, Mask<T, N> b) {
  return {~a.raw & b.raw};
}
template <class D, class From>
HWY_INLINE Mask<TFromD<D>, D::kSize> RebindMask(D, From mask) {
  return {(typename Mask<TFromD<D>, D::kSize>::Raw)mask.raw};
}
template <class T, size_t N>
HWY_INLINE Vector<T, N> IfThenElse(Mask<T, N> mask, Vector<T, N> yes, Vector<T, N> no) {
  return {mask.raw ? yes.raw : no.raw};
}
template <class T, size_t N>
HWY_INLINE Vector<T, N> IfThenElseZero(Mask<T, N> mask, Vector<T, N> yes) {
  return {mask.raw ? yes.raw : typename Vector<T, N>::Raw{}};
}

// To integers: toward zero.
template <class D, class V>
HWY_INLINE Vec<D> ConvertTo(D, V v) {
  return {__builtin_convertvector(v.raw, typename Vec<D>::Raw)};
}
template <size_t N>
HWY_INLINE Vector<int32_t, N> NearestInt(Vector<float, N> v) {
  return {vesper::vector_model::nearest_int(v.raw)};
}
template <class D, class T, size_t N>
HWY_INLINE Vec<D> PromoteTo(D d, Vector<T, N> v) {
  if constexpr (std::is_same_v<T, float16_t>) {
    return {vesper::vector_model::from_f16(&v.raw)};
  } else {
    return ConvertTo(d, v);
  }
}
// Integers are saturated.
template <class D, class T, size_t N>
HWY_INLINE Vec<D> DemoteTo(D d, Vector<T, N> v) {
  if constexpr (std::is_same_v<TFromD<D>, float16_t>) {
    return {vesper::vector_model::to_f16(v.raw)};
  } else {
    using Limits = std::numeric_limits<TFromD<D>>;
    const Tag<T, N> from;
    return ConvertTo(d, Min(Max(v, Set(from, Limits::min())), Set(from, Limits::max())));
  }
}
// The sums of products of neighbouring words; all are added to `sum`.
template <class D, class V, class Sum>
HWY_INLINE Sum ReorderWidenMulAccumulate(D d, V a, V b, Sum sum, Sum&) {
  const auto x = BitCast(d, a), y = BitCast(d, b);
  const auto low = [](auto v) __attribute__((always_inline)) {
    return ShiftRight<16>(ShiftLeft<16>(v));
  };
  sum = Add(sum, Mul(low(x), low(y)));
  return Add(sum, Mul(ShiftRight<16>(x), ShiftRight<16>(y)));
}

template <class V>
HWY_INLINE V Floor(V v) {
  for (size_t i = 0; i < sizeof v.raw / 4; ++i) v.raw[i] = std::floor(v.raw[i]);
  return v;
}
template <class D>
HWY_INLINE Vec<D> Exp(D d, Vec<D> v) {
  return each(d, [&](size_t i) { return std::exp(v.raw[i]); });
}
template <class D>
HWY_INLINE Vec<D> Tanh(D d, Vec<D> v) {
  return each(d, [&](size_t i) { return std::tanh(v.raw[i]); });
}

}  // namespace HWY_NAMESPACE
}  // namespace hwy

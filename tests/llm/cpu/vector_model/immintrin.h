// In place of <immintrin.h>: the AVX-512 intrinsics that llm/cpu uses, as functions on vectors that
// the compiler cuts into vectors of AVX2. With VESPER_MODEL_WITHOUT_NAMES, the CPU's intrinsics
// keep their names, for comparison.
//
// Operations: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.
#pragma once

#include_next <immintrin.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define VESPER_MODEL __attribute__((always_inline)) inline

namespace vesper::vector_model {

typedef float F32 __attribute__((vector_size(64)));
typedef int32_t I32 __attribute__((vector_size(64)));
typedef uint32_t U32 __attribute__((vector_size(64)));
typedef int16_t I16 __attribute__((vector_size(64)));
typedef uint16_t U16 __attribute__((vector_size(64)));
typedef int8_t I8 __attribute__((vector_size(64)));
typedef uint64_t U64 __attribute__((vector_size(64)));

template <class V>
VESPER_MODEL V load(const void* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// Element i of the result is body(i).
template <class V, class Body>
VESPER_MODEL V each(const Body& body) {
  V v{};
  for (size_t i = 0; i < sizeof(V) / sizeof(v[0]); ++i) v[i] = body(i);
  return v;
}

struct Halves {
  __m256 half[2];
};
VESPER_MODEL F32 fmadd(F32 a, F32 b, F32 c) {
  const auto x = load<Halves>(&a), y = load<Halves>(&b), z = load<Halves>(&c);
  const Halves sum{{_mm256_fmadd_ps(x.half[0], y.half[0], z.half[0]),
                    _mm256_fmadd_ps(x.half[1], y.half[1], z.half[1])}};
  return load<F32>(&sum);
}

// Rounds to nearest even; INT32_MIN for what does not fit.
VESPER_MODEL I32 nearest_int(F32 x) {
  const auto parts = load<Halves>(&x);
  const __m256i rounded[2] = {_mm256_cvtps_epi32(parts.half[0]), _mm256_cvtps_epi32(parts.half[1])};
  return load<I32>(rounded);
}
VESPER_MODEL F32 to_float(I32 x) { return __builtin_convertvector(x, F32); }

// f16 [16] as f32.
VESPER_MODEL F32 from_f16(const void* halves) {
  const auto bits = load<__m256i>(halves);
  const Halves parts{{_mm256_cvtph_ps(_mm256_castsi256_si128(bits)),
                      _mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1))}};
  return load<F32>(&parts);
}

VESPER_MODEL auto to_f16(F32 x) {
  typedef uint16_t Narrow __attribute__((vector_size(32)));
  const auto parts = load<Halves>(&x);
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return (Narrow)_mm256_set_m128i(_mm256_cvtps_ph(parts.half[1], kNearest),
                                  _mm256_cvtps_ph(parts.half[0], kNearest));
}

// Denormal numbers become zeros of the same sign.
VESPER_MODEL F32 flushed(F32 x) {
  const U32 bits = (U32)x;
  const U32 is_normal = (U32)((bits & 0x7f800000u) != 0);
  return (F32)(bits & (is_normal | 0x80000000u));
}

// VDPBF16PS: a fused multiply-add of the odd elements, then one of the even ones. Denormal factors
// and sums are zero.
template <class Sum, class V>
VESPER_MODEL void add_bf16_pairs(Sum& sums, V a, V b) {
  const U32 x = (U32)a, y = (U32)b;
  F32 sum = flushed((F32)sums);
  sum = flushed(fmadd(flushed((F32)(x & 0xffff0000u)), flushed((F32)(y & 0xffff0000u)), sum));
  sum = flushed(fmadd(flushed((F32)(x << 16)), flushed((F32)(y << 16)), sum));
  sums = (Sum)sum;
}

// VPDPBUSD: the products of four unsigned (a) and four signed (b) bytes; the sums wrap around.
template <class Sum, class V>
VESPER_MODEL void add_byte_quads(Sum& sums, V a, V b) {
  constexpr size_t kBytes = sizeof(V);
  typedef uint32_t Unsigned __attribute__((vector_size(kBytes)));
  typedef int32_t Signed __attribute__((vector_size(kBytes)));
  const Unsigned x = (Unsigned)a;
  const Signed y = (Signed)b;
  Unsigned sum = (Unsigned)sums;
  sum += (x & 0xff) * (Unsigned)(y << 24 >> 24);
  sum += (x >> 8 & 0xff) * (Unsigned)(y << 16 >> 24);
  sum += (x >> 16 & 0xff) * (Unsigned)(y << 8 >> 24);
  sum += (x >> 24) * (Unsigned)(y >> 24);
  sums = (Sum)sum;
}

// VPDPWSSD with a broadcast operand: the products of two signed words; the sums wrap around.
VESPER_MODEL void add_int16_pairs(__m512i& sums, __m512i a, const void* b_address) {
  const I32 x = (I32)a, y = I32{} + load<int32_t>(b_address);
  U32 sum = (U32)sums;
  sum += (U32)(x << 16 >> 16) * (U32)(y << 16 >> 16);
  sum += (U32)(x >> 16) * (U32)(y >> 16);
  sums = (__m512i)sum;
}

// VCVTNE2PS2BF16: denormal numbers become zeros.
VESPER_MODEL uint16_t to_bf16(float x) {
  const auto bits = load<uint32_t>(&x);
  if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40);
  if ((bits & 0x7f800000) == 0) return static_cast<uint16_t>(bits >> 16 & 0x8000);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

VESPER_MODEL __m512i mm512_loadu_si512(const void* from) { return load<__m512i>(from); }
VESPER_MODEL __m512 mm512_loadu_ps(const void* from) { return load<__m512>(from); }
VESPER_MODEL void mm512_storeu_si512(void* to, __m512i v) { std::memcpy(to, &v, sizeof v); }
VESPER_MODEL void mm512_storeu_ps(void* to, __m512 v) { std::memcpy(to, &v, sizeof v); }
// An address that is not aligned is a fault.
VESPER_MODEL __m512i mm512_load_si512(const void* from) {
  if (reinterpret_cast<uintptr_t>(from) % 64 != 0) __builtin_trap();
  return load<__m512i>(from);
}
VESPER_MODEL void mm512_store_si512(void* to, __m512i v) {
  if (reinterpret_cast<uintptr_t>(to) % 64 != 0) __builtin_trap();
  std::memcpy(to, &v, sizeof v);
}
VESPER_MODEL __m512i mm512_maskz_loadu_epi32(__mmask16 mask, const void* from) {
  I32 v{};
  for (size_t i = 0; i < 16; ++i) {
    if (mask >> i & 1) v[i] = load<int32_t>(static_cast<const std::byte*>(from) + 4 * i);
  }
  return (__m512i)v;
}
VESPER_MODEL void mm512_mask_storeu_epi32(void* to, __mmask16 mask, __m512i v) {
  for (size_t i = 0; i < 16; ++i) {
    const int32_t lane = ((I32)v)[i];
    if (mask >> i & 1) std::memcpy(static_cast<std::byte*>(to) + 4 * i, &lane, sizeof lane);
  }
}

VESPER_MODEL __m512 mm512_setzero_ps() { return __m512{}; }
VESPER_MODEL __m512i mm512_setzero_si512() { return __m512i{}; }
VESPER_MODEL __m512 mm512_set1_ps(float x) { return F32{} + x; }
VESPER_MODEL __m512i mm512_set1_epi32(int x) { return (__m512i)(I32{} + x); }
VESPER_MODEL __m512i mm512_set1_epi16(short x) { return (__m512i)(I16{} + x); }
VESPER_MODEL __m512i mm512_set1_epi8(char x) { return (__m512i)(I8{} + static_cast<int8_t>(x)); }
// The highest lane first.
template <class... Lanes>
VESPER_MODEL __m512i mm512_set_epi32(Lanes... values) {
  const int32_t from[16] = {values...};
  return (__m512i)each<I32>([&](size_t i) { return from[15 - i]; });
}

VESPER_MODEL __m512 mm512_castsi512_ps(__m512i v) { return (__m512)v; }
VESPER_MODEL __m512i mm512_castps_si512(__m512 v) { return (__m512i)v; }

VESPER_MODEL __m512 mm512_add_ps(__m512 a, __m512 b) { return (F32)a + (F32)b; }
VESPER_MODEL __m512 mm512_sub_ps(__m512 a, __m512 b) { return (F32)a - (F32)b; }
VESPER_MODEL __m512 mm512_mul_ps(__m512 a, __m512 b) { return (F32)a * (F32)b; }
VESPER_MODEL __m512 mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) { return fmadd(a, b, c); }
VESPER_MODEL __m512i mm512_add_epi32(__m512i a, __m512i b) { return (__m512i)((U32)a + (U32)b); }
VESPER_MODEL __m512i mm512_and_si512(__m512i a, __m512i b) { return (__m512i)((U32)a & (U32)b); }
VESPER_MODEL __m512i mm512_or_si512(__m512i a, __m512i b) { return (__m512i)((U32)a | (U32)b); }
VESPER_MODEL __m512i mm512_slli_epi32(__m512i a, unsigned n) { return (__m512i)((U32)a << n); }
VESPER_MODEL __m512i mm512_srli_epi32(__m512i a, unsigned n) { return (__m512i)((U32)a >> n); }
VESPER_MODEL __m512i mm512_slli_epi16(__m512i a, unsigned n) {
  return (__m512i)((U16)a << static_cast<uint16_t>(n));
}
VESPER_MODEL __m512i mm512_srli_epi16(__m512i a, unsigned n) {
  return (__m512i)((U16)a >> static_cast<uint16_t>(n));
}
VESPER_MODEL __m512i mm512_max_epu16(__m512i a, __m512i b) {
  const U16 x = (U16)a, y = (U16)b;
  return (__m512i)(x > y ? x : y);
}
// Bit i of `table` is the result for the bits i = 4 a + 2 b + c.
VESPER_MODEL __m512i mm512_ternarylogic_epi32(__m512i a, __m512i b, __m512i c, unsigned table) {
  U32 result{};
  for (unsigned i = 0; i < 8; ++i) {
    const U32 x = i & 4 ? (U32)a : ~(U32)a, y = i & 2 ? (U32)b : ~(U32)b;
    if (table >> i & 1) result |= x & y & (i & 1 ? (U32)c : ~(U32)c);
  }
  return (__m512i)result;
}
VESPER_MODEL __m512i mm512_dpbusd_epi32(__m512i sum, __m512i a, __m512i b) {
  add_byte_quads(sum, a, b);
  return sum;
}

VESPER_MODEL __m512 mm512_cvtepi32_ps(__m512i v) { return to_float((I32)v); }
VESPER_MODEL __m512i mm512_cvtps_epi32(__m512 v) { return (__m512i)nearest_int(v); }
VESPER_MODEL __m512 mm512_cvtph_ps(__m256i v) { return from_f16(&v); }
VESPER_MODEL __m512i mm512_cvtepu16_epi32(__m256i v) {
  return (__m512i)each<I32>(
      [&](size_t i) { return load<uint16_t>(reinterpret_cast<const std::byte*>(&v) + 2 * i); });
}
// The lower halves.
VESPER_MODEL __m256i mm512_cvtepi32_epi16(__m512i v) {
  typedef int16_t Narrow __attribute__((vector_size(32)));
  return (__m256i) __builtin_convertvector((I32)v, Narrow);
}
// b in the lower half of the result, a in the upper.
VESPER_MODEL __m512bh mm512_cvtne2ps_pbh(__m512 a, __m512 b) {
  const auto result =
      each<U16>([&](size_t i) { return to_bf16(i < 16 ? ((F32)b)[i] : ((F32)a)[i - 16]); });
  return load<__m512bh>(&result);
}
// Saturated, by quarters: four of a, four of b.
VESPER_MODEL __m512i mm512_packs_epi32(__m512i a, __m512i b) {
  return (__m512i)each<I16>([&](size_t i) {
    const I32 from = i % 8 < 4 ? (I32)a : (I32)b;
    const int32_t value = from[i / 8 * 4 + i % 4];
    return static_cast<int16_t>(value < INT16_MIN   ? INT16_MIN
                                : value > INT16_MAX ? INT16_MAX
                                                    : value);
  });
}

VESPER_MODEL __m512 mm512_permutexvar_ps(__m512i index, __m512 v) {
  return each<F32>([&](size_t i) { return ((F32)v)[((U32)index)[i] % 16]; });
}
VESPER_MODEL __m512i mm512_permutexvar_epi16(__m512i index, __m512i v) {
  return (__m512i)each<U16>([&](size_t i) { return ((U16)v)[((U16)index)[i] % 32]; });
}
VESPER_MODEL __m512i mm512_permutex2var_epi16(__m512i a, __m512i index, __m512i b) {
  return (__m512i)each<U16>([&](size_t i) {
    const uint16_t from = ((U16)index)[i];
    return from & 32 ? ((U16)b)[from % 32] : ((U16)a)[from % 32];
  });
}
// Lanes of a and b in turn, from each quarter its lower or upper half.
template <class V>
VESPER_MODEL __m512i unpack(__m512i a, __m512i b, bool upper) {
  constexpr size_t kQuarter = sizeof(V) / sizeof(V{}[0]) / 4;
  return (__m512i)each<V>([&](size_t i) {
    const size_t from = i / kQuarter * kQuarter + (upper ? kQuarter / 2 : 0) + i % kQuarter / 2;
    return i % 2 == 0 ? ((V)a)[from] : ((V)b)[from];
  });
}
VESPER_MODEL __m512i mm512_unpacklo_epi32(__m512i a, __m512i b) { return unpack<U32>(a, b, false); }
VESPER_MODEL __m512i mm512_unpackhi_epi32(__m512i a, __m512i b) { return unpack<U32>(a, b, true); }
VESPER_MODEL __m512i mm512_unpacklo_epi64(__m512i a, __m512i b) { return unpack<U64>(a, b, false); }
VESPER_MODEL __m512i mm512_unpackhi_epi64(__m512i a, __m512i b) { return unpack<U64>(a, b, true); }
// Two quarters of a, then two of b; each has two bits of `which`.
VESPER_MODEL __m512i mm512_shuffle_i32x4(__m512i a, __m512i b, unsigned which) {
  return (__m512i)each<U32>([&](size_t i) {
    const size_t from = (which >> (i / 4 * 2) & 3) * 4 + i % 4;
    return i < 8 ? ((U32)a)[from] : ((U32)b)[from];
  });
}

VESPER_MODEL __mmask16 mm512_cmp_ps_mask(__m512 a, __m512 b, int predicate) {
  if (predicate != _CMP_GT_OQ) __builtin_trap();
  unsigned mask = 0;
  for (size_t i = 0; i < 16; ++i) mask |= unsigned{((F32)a)[i] > ((F32)b)[i]} << i;
  return static_cast<__mmask16>(mask);
}
VESPER_MODEL __m512 mm512_maskz_div_ps(__mmask16 mask, __m512 a, __m512 b) {
  return each<F32>([&](size_t i) { return mask >> i & 1 ? ((F32)a)[i] / ((F32)b)[i] : 0.0f; });
}
// x - floor(x), also rounded down, so an integer becomes -0; 0 for infinities.
VESPER_MODEL __m512 mm512_reduce_ps(__m512 v, int immediate) {
  if (immediate != 9) __builtin_trap();
  return each<F32>([&](size_t i) {
    const float x = ((F32)v)[i];
    if (std::isinf(x)) return 0.0f;
    const double difference = double{x} - std::floor(x);
    const auto rounded = static_cast<float>(difference);
    if (rounded == 0.0f) return -0.0f;
    return rounded > difference || rounded == 1.0f ? std::nextafter(rounded, 0.0f) : rounded;
  });
}
// a * 2^floor(b)
VESPER_MODEL __m512 mm512_scalef_ps(__m512 a, __m512 b) {
  return each<F32>([&](size_t i) {
    const float x = ((F32)a)[i], power = std::floor(((F32)b)[i]);
    if (power != power || x != x) return x + power;
    if (power == -INFINITY) return std::isinf(x) ? NAN : std::copysign(0.0f, x);
    if (power == INFINITY) return x == 0.0f ? NAN : std::copysign(INFINITY, x);
    return std::ldexp(x, static_cast<int>(std::fmin(std::fmax(power, -1000.0f), 1000.0f)));
  });
}

}  // namespace vesper::vector_model

#ifndef VESPER_MODEL_WITHOUT_NAMES
// Without optimization, GCC defines these as macros.
#undef _mm512_slli_epi32
#undef _mm512_srli_epi32
#undef _mm512_slli_epi16
#undef _mm512_srli_epi16
#undef _mm512_ternarylogic_epi32
#undef _mm512_shuffle_i32x4
#undef _mm512_cmp_ps_mask
#undef _mm512_reduce_ps
#define _mm512_loadu_si512 vesper::vector_model::mm512_loadu_si512
#define _mm512_loadu_ps vesper::vector_model::mm512_loadu_ps
#define _mm512_storeu_si512 vesper::vector_model::mm512_storeu_si512
#define _mm512_storeu_ps vesper::vector_model::mm512_storeu_ps
#define _mm512_load_si512 vesper::vector_model::mm512_load_si512
#define _mm512_store_si512 vesper::vector_model::mm512_store_si512
#define _mm512_maskz_loadu_epi32 vesper::vector_model::mm512_maskz_loadu_epi32
#define _mm512_mask_storeu_epi32 vesper::vector_model::mm512_mask_storeu_epi32
#define _mm512_setzero_ps vesper::vector_model::mm512_setzero_ps
#define _mm512_setzero_si512 vesper::vector_model::mm512_setzero_si512
#define _mm512_set1_ps vesper::vector_model::mm512_set1_ps
#define _mm512_set1_epi32 vesper::vector_model::mm512_set1_epi32
#define _mm512_set1_epi16 vesper::vector_model::mm512_set1_epi16
#define _mm512_set1_epi8 vesper::vector_model::mm512_set1_epi8
#define _mm512_set_epi32 vesper::vector_model::mm512_set_epi32
#define _mm512_castsi512_ps vesper::vector_model::mm512_castsi512_ps
#define _mm512_castps_si512 vesper::vector_model::mm512_castps_si512
#define _mm512_add_ps vesper::vector_model::mm512_add_ps
#define _mm512_sub_ps vesper::vector_model::mm512_sub_ps
#define _mm512_mul_ps vesper::vector_model::mm512_mul_ps
#define _mm512_fmadd_ps vesper::vector_model::mm512_fmadd_ps
#define _mm512_add_epi32 vesper::vector_model::mm512_add_epi32
#define _mm512_and_si512 vesper::vector_model::mm512_and_si512
#define _mm512_or_si512 vesper::vector_model::mm512_or_si512
#define _mm512_slli_epi32 vesper::vector_model::mm512_slli_epi32
#define _mm512_srli_epi32 vesper::vector_model::mm512_srli_epi32
#define _mm512_slli_epi16 vesper::vector_model::mm512_slli_epi16
#define _mm512_srli_epi16 vesper::vector_model::mm512_srli_epi16
#define _mm512_max_epu16 vesper::vector_model::mm512_max_epu16
#define _mm512_ternarylogic_epi32 vesper::vector_model::mm512_ternarylogic_epi32
#define _mm512_dpbusd_epi32 vesper::vector_model::mm512_dpbusd_epi32
#define _mm512_cvtepi32_ps vesper::vector_model::mm512_cvtepi32_ps
#define _mm512_cvtps_epi32 vesper::vector_model::mm512_cvtps_epi32
#define _mm512_cvtph_ps vesper::vector_model::mm512_cvtph_ps
#define _mm512_cvtepu16_epi32 vesper::vector_model::mm512_cvtepu16_epi32
#define _mm512_cvtepi32_epi16 vesper::vector_model::mm512_cvtepi32_epi16
#define _mm512_cvtne2ps_pbh vesper::vector_model::mm512_cvtne2ps_pbh
#define _mm512_packs_epi32 vesper::vector_model::mm512_packs_epi32
#define _mm512_permutexvar_ps vesper::vector_model::mm512_permutexvar_ps
#define _mm512_permutexvar_epi16 vesper::vector_model::mm512_permutexvar_epi16
#define _mm512_permutex2var_epi16 vesper::vector_model::mm512_permutex2var_epi16
#define _mm512_unpacklo_epi32 vesper::vector_model::mm512_unpacklo_epi32
#define _mm512_unpackhi_epi32 vesper::vector_model::mm512_unpackhi_epi32
#define _mm512_unpacklo_epi64 vesper::vector_model::mm512_unpacklo_epi64
#define _mm512_unpackhi_epi64 vesper::vector_model::mm512_unpackhi_epi64
#define _mm512_shuffle_i32x4 vesper::vector_model::mm512_shuffle_i32x4
#define _mm512_cmp_ps_mask vesper::vector_model::mm512_cmp_ps_mask
#define _mm512_maskz_div_ps vesper::vector_model::mm512_maskz_div_ps
#define _mm512_reduce_ps vesper::vector_model::mm512_reduce_ps
#define _mm512_scalef_ps vesper::vector_model::mm512_scalef_ps
#endif

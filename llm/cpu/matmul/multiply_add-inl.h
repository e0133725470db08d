// Multiply-add instructions of products, one struct per kind of 32-bit unit of the inner dimension:
// one f32, two bf16 or four int8. Written with Highway and compiled once per instruction set, so
// there is no plain include guard.
//
// Some are an instruction of dot_instructions.h. Call them only if cpu_features() has the
// instruction. On instruction sets without it, the struct is that of f32.
#if defined(VESPER_LLM_CPU_MULTIPLY_ADD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_MULTIPLY_ADD_INL_H_
#undef VESPER_LLM_CPU_MULTIPLY_ADD_INL_H_
#else
#define VESPER_LLM_CPU_MULTIPLY_ADD_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "llm/cpu/dot_instructions.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct MultiplyF32 {
  using Tag = hn::ScalableTag<float>;
  using Vec = hn::Vec<Tag>;
  using Sum = float;
  static constexpr size_t kPerUnit = 1;
  template <class V>
  static HWY_INLINE V add(V a, V b, V sum) {
    return hn::MulAdd(a, b, sum);
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
struct MultiplyBf16Pair {
  using Tag = hn::ScalableTag<float>;
  using Vec = hn::Vec<Tag>;
  using Sum = float;
  static constexpr size_t kPerUnit = 2;
  static HWY_INLINE Vec add(Vec a, Vec b, Vec sum) {
    VESPER_VDPBF16PS(sum.raw, a.raw, b.raw);
    return sum;
  }
};
#else
using MultiplyBf16Pair = MultiplyF32;
#endif

// Rows are unsigned, weights signed.
#if HWY_ARCH_X86 && (HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_AVX2)
struct MultiplyInt8Quad {
  using Tag = hn::ScalableTag<int32_t>;
  using Vec = hn::Vec<Tag>;
  using Sum = int32_t;
  static constexpr size_t kPerUnit = 4;
  static HWY_INLINE Vec add(Vec a, Vec b, Vec sum) {
#if HWY_TARGET == HWY_AVX2
    VESPER_VEX_VPDPBUSD(sum.raw, a.raw, b.raw);
#else
    VESPER_VPDPBUSD(sum.raw, a.raw, b.raw);
#endif
    return sum;
  }
};
#else
using MultiplyInt8Quad = MultiplyF32;
#endif

// Both signed, for CPUs without int8 instructions: two steps of int16 pairs where available,
// otherwise four of int32.
struct MultiplySignedInt8Quad {
  using Tag = hn::ScalableTag<int32_t>;
  using Vec = hn::Vec<Tag>;
  using Sum = int32_t;
  static constexpr size_t kPerUnit = 4;
  static HWY_INLINE Vec add(Vec a, Vec b, Vec sum) {
    const Tag d;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
    const hn::Repartition<int16_t, Tag> d16;
    const auto a16 = hn::BitCast(d16, a), b16 = hn::BitCast(d16, b);
    Vec unused = hn::Zero(d);  // on x86, products of neighbours are added to the first sum
    sum = hn::ReorderWidenMulAccumulate(d, hn::ShiftRight<8>(hn::ShiftLeft<8>(a16)),
                                        hn::ShiftRight<8>(hn::ShiftLeft<8>(b16)), sum, unused);
    return hn::ReorderWidenMulAccumulate(d, hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16), sum,
                                         unused);
#else
    const auto product = [&](Vec x, Vec y) HWY_ATTR {
      return hn::Mul(hn::ShiftRight<24>(x), hn::ShiftRight<24>(y));
    };
    sum = hn::Add(sum, product(hn::ShiftLeft<24>(a), hn::ShiftLeft<24>(b)));
    sum = hn::Add(sum, product(hn::ShiftLeft<16>(a), hn::ShiftLeft<16>(b)));
    sum = hn::Add(sum, product(hn::ShiftLeft<8>(a), hn::ShiftLeft<8>(b)));
    return hn::Add(sum, product(a, b));
#endif
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif

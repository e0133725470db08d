// Epilogue of a product: scales, bias, activation, residual, conversion to the output format.
// Compiled once per instruction set (Highway's foreach_target), so there is no plain include guard.
#if defined(VESPER_LLM_CPU_EPILOGUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_EPILOGUE_INL_H_
#undef VESPER_LLM_CPU_EPILOGUE_INL_H_
#else
#define VESPER_LLM_CPU_EPILOGUE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "llm/cpu/matmul/gemm.h"
#include "llm/cpu/numbers-inl.h"

#ifndef VESPER_LLM_CPU_EPILOGUE_
#define VESPER_LLM_CPU_EPILOGUE_
namespace vesper {

// Offset of a row's results, in elements, and the scale of its int8 inputs.
struct RowOffsets {
  size_t out, residual;
  float scale;
};

// Absent operands are null.
struct Epilogue {
  void* out = nullptr;
  const float* residual = nullptr;      // may alias `out`
  const float* bias = nullptr;          // [n_out]
  const float* output_scale = nullptr;  // [n_out], for int8 weights
  const RowOffsets* rows = nullptr;     // of the block
  uint32_t activation = 0;              // kActivation*
  uint32_t n_out = 0;
};
using FinishSums = void (*)(const Epilogue&, const GemmSums&, uint32_t from, uint32_t to);

// Context of the epilogue for a kernel that calls it.
struct FinishContext {
  const Epilogue* epilogue;
  FinishSums finish;
};
inline void finish_in_context(const void* context, const GemmSums& sums, uint32_t from,
                              uint32_t to) {
  const auto& finish = *static_cast<const FinishContext*>(context);
  finish.finish(*finish.epilogue, sums, from, to);
}

}  // namespace vesper
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// Exact (erf) GELU by a polynomial, half the time of the division and exponential of gelu(). With z
// = |x| / sqrt 2 clamped to L, erf(z) / z is a polynomial in u = 2 z^2 / L^2 - 1, fitted at
// Chebyshev nodes. Error of the result: at most 4e-7 (L = 3.92, kPrecise) or 7e-5 (L = 3, for
// 16-bit outputs).
template <bool kPrecise>
HWY_INLINE VF32 gelu_by_polynomial(VF32 x) {
  const F32 d;
  constexpr float kLimit = kPrecise ? 3.92f : 3.0f;
  const VF32 z = hn::Max(hn::Min(hn::Mul(x, hn::Set(d, 0.70710678f)), hn::Set(d, kLimit)),
                         hn::Set(d, -kLimit));
  const VF32 u = hn::MulAdd(hn::Mul(z, z), hn::Set(d, 2.0f / (kLimit * kLimit)), hn::Set(d, -1.0f));
  VF32 p;
  if constexpr (kPrecise) {
    constexpr float kTerms[] = {-0.000939271937f, 0.00212785811f, -0.00104527804f, 0.00182033039f,
                                -0.00817048363f,  0.014343502f,   -0.0196174905f,  0.0296092127f,
                                -0.0435857326f,   0.0584258288f,  -0.0739898905f,  0.090592213f,
                                -0.109181851f,    0.134084836f,   -0.180108562f,   0.360736817f};
    p = hn::Set(d, kTerms[0]);
    for (size_t i = 1; i < std::size(kTerms); ++i) p = hn::MulAdd(p, u, hn::Set(d, kTerms[i]));
  } else {
    constexpr float kTerms[] = {0.0082701426f,  -0.0185770225f, 0.021593133f,
                                -0.0386645123f, 0.0734755322f,  -0.111587308f,
                                0.157376945f,   -0.228684098f,  0.470134258f};
    p = hn::Set(d, kTerms[0]);
    for (size_t i = 1; i < std::size(kTerms); ++i) p = hn::MulAdd(p, u, hn::Set(d, kTerms[i]));
  }
  const VF32 half_x = hn::Mul(x, hn::Set(d, 0.5f));
  return hn::MulAdd(half_x, hn::Mul(z, p), half_x);
}

// How the epilogue applies the activation.
enum class Activates { kNone, kExactly, kByPolynomial };

template <Activates kActivates, class Out>
HWY_INLINE VF32 apply_activation(uint32_t activation, VF32 x) {
  if constexpr (kActivates == Activates::kNone) return x;
  if constexpr (kActivates == Activates::kByPolynomial) {
    return gelu_by_polynomial<std::is_same_v<Out, float>>(x);
  }
  return activate(activation, x);
}

HWY_INLINE VF32 load_sums(const float* from) { return hn::LoadU(F32(), from); }
HWY_INLINE VF32 load_sums(const int32_t* from) {
  return hn::ConvertTo(F32(), hn::LoadU(hn::RebindToSigned<F32>(), from));
}

// out = residual + activation(bias + sums * scales) for rows [from, to) of the sums.
template <class Sum, class Out, Activates kActivates>
HWY_NOINLINE void finish_sums(const Epilogue& epilogue, const GemmSums& sums, uint32_t from,
                              uint32_t to) {
  const F32 d;
  constexpr uint32_t kVectors = kPanelOutputs / kLanes;
  for (uint32_t p = 0; p < sums.n_panels; ++p) {
    const size_t output = size_t{sums.first_panel + p} * kPanelOutputs;
    const uint32_t n = std::min<uint32_t>(kPanelOutputs, epilogue.n_out - output);
    const bool is_whole = n == kPanelOutputs;
    // Operands of a panel at the edge are read from copies, and its results are written through
    // one.
    float edge[3][kPanelOutputs] = {};
    const auto operand = [&](const float* at, float* copy) {
      if (at == nullptr || is_whole) return at;
      std::copy_n(at, n, copy);
      return static_cast<const float*>(copy);
    };
    const float* const bias =
        operand(epilogue.bias == nullptr ? nullptr : epilogue.bias + output, edge[0]);
    const float* const scale = operand(
        epilogue.output_scale == nullptr ? nullptr : epilogue.output_scale + output, edge[1]);
    const auto* of_row = reinterpret_cast<const Sum*>(sums.data + p * sums.panel_stride) +
                         size_t{from} * kPanelOutputs;
    for (uint32_t r = from; r < to; ++r, of_row += kPanelOutputs) {
      const RowOffsets& row = epilogue.rows[sums.first_row + r];
      Out* const out = static_cast<Out*>(epilogue.out) + row.out + output;
      const float* const residual = operand(
          epilogue.residual == nullptr ? nullptr : epilogue.residual + row.residual + output,
          edge[2]);
      Out last[kPanelOutputs];
      Out* const result = is_whole ? out : last;
#pragma GCC unroll 16
      for (uint32_t v = 0; v < kVectors; ++v) {
        const uint32_t i = v * kLanes;
        VF32 x = load_sums(of_row + i);
        if (scale != nullptr) {
          x = hn::Mul(x, hn::Mul(hn::LoadU(d, scale + i), hn::Set(d, row.scale)));
        }
        if (bias != nullptr) x = hn::Add(x, hn::LoadU(d, bias + i));
        x = apply_activation<kActivates, Out>(epilogue.activation, x);
        if (residual != nullptr) x = hn::Add(x, hn::LoadU(d, residual + i));
        store_f32(x, result + i);
      }
      if (!is_whole) std::copy_n(last, n, out);
    }
  }
}

template <class Sum, class Out>
HWY_INLINE FinishSums choose_finish_of(uint32_t activation, bool polynomial_gelu) {
  if (activation == kActivationNone) return finish_sums<Sum, Out, Activates::kNone>;
  return activation == kActivationGelu && polynomial_gelu
             ? finish_sums<Sum, Out, Activates::kByPolynomial>
             : finish_sums<Sum, Out, Activates::kExactly>;
}

template <class Sum>
HWY_INLINE FinishSums choose_finish_of(const MatmulParams& params, bool polynomial_gelu) {
  switch (params.out_dtype) {
    case kDTypeF32:
      return choose_finish_of<Sum, float>(params.activation, polynomial_gelu);
    case kDTypeF16:
      return choose_finish_of<Sum, F16>(params.activation, polynomial_gelu);
    default:
      return choose_finish_of<Sum, BF16>(params.activation, polynomial_gelu);
  }
}

inline FinishSums choose_finish(const MatmulParams& params, const GemmKernel& kernel) {
  const bool polynomial_gelu = kernel.has(GemmKernel::kPolynomialGelu);
  return kernel.has(GemmKernel::kIntegerSums) ? choose_finish_of<int32_t>(params, polynomial_gelu)
                                              : choose_finish_of<float>(params, polynomial_gelu);
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif

#include "llm/cpu/encoder_matmul_vector.h"

#include <algorithm>
#include <cstring>

#include "llm/cpu/cpu_features.h"
#include "llm/cpu/matmul_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/encoder_matmul_vector.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "llm/cpu/encoder_rows-inl.h"

#ifndef VESPER_VECTOR_MATMUL_LAYOUT
#define VESPER_VECTOR_MATMUL_LAYOUT
namespace vesper {
namespace {

size_t units_of(uint32_t n_in, VectorUnit unit) {
  const size_t per_unit = unit == VectorUnit::kF32 ? 1 : unit == VectorUnit::kInt16Pair ? 2 : 4;
  return (n_in + per_unit - 1) / per_unit;
}
// From row to row of the converted input, in units: not a power of two, for rows that lie a power
// of two apart share few lines of the cache.
size_t row_units(uint32_t n_in, VectorUnit unit) {
  return (units_of(n_in, unit) + 15) / 16 * 16 + 16;
}

}  // namespace
}  // namespace vesper
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;

// Rows that are multiplied with two vectors at once: as many as leave registers for the factors.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr size_t kRowsAtOnce = 12;
#else
constexpr size_t kRowsAtOnce = 6;
#endif
static_assert(kVectorRowStep % kRowsAtOnce == 0);

size_t panel_outputs() { return 2 * hn::Lanes(F32()); }

// How the units of a product are multiplied and added, one struct for each VectorUnit.
struct MultiplyF32 {
  using Tag = F32;
  using Vec = hn::Vec<F32>;
  using Sum = float;
  static HWY_INLINE Vec add(Vec a, Vec b, Vec sum) { return hn::MulAdd(a, b, sum); }
};

#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
struct MultiplyInt16Pair {
  using Tag = I32;
  using Vec = hn::Vec<I32>;
  using Sum = int32_t;
  static HWY_INLINE Vec add(Vec a, Vec b, Vec sum) {
    const hn::Repartition<int16_t, I32> d16;
    Vec unused = hn::Zero(I32());  // on x86 products of neighbours are added into the first sum
    return hn::ReorderWidenMulAccumulate(I32(), hn::BitCast(d16, a), hn::BitCast(d16, b), sum,
                                         unused);
  }
};
#else
using MultiplyInt16Pair = MultiplyF32;
#endif

// As assembly: Highway 1.0 does not have the instruction, and its intrinsic cannot be inlined into
// code for CPUs without it. Called only where vector_unit found it.
#if HWY_ARCH_X86 && (HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_AVX2)
struct MultiplyInt8Quad {
  using Tag = I32;
  using Vec = hn::Vec<I32>;
  using Sum = int32_t;
  static HWY_INLINE Vec add(Vec a, Vec b, Vec sum) {
#if HWY_TARGET == HWY_AVX2
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(a.raw), "x"(b.raw));
#else
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
#endif
    return sum;
  }
};
#else
using MultiplyInt8Quad = MultiplyF32;
#endif

// sums [kRowsAtOnce][2 vectors] = rows (row_stride units apart) times a panel of n_units.
template <class Op>
HWY_NOINLINE void multiply_panel(const uint32_t* HWY_RESTRICT rows, size_t row_stride,
                                 const uint32_t* HWY_RESTRICT panel, size_t n_units,
                                 typename Op::Sum* HWY_RESTRICT sums) {
  const typename Op::Tag d;
  using Unit = hn::TFromD<typename Op::Tag>;
  const size_t lanes = hn::Lanes(d);
  const Unit* a = reinterpret_cast<const Unit*>(rows);
  const Unit* b = reinterpret_cast<const Unit*>(panel);
  typename Op::Vec s[kRowsAtOnce][2];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRowsAtOnce; ++r) {
    s[r][0] = hn::LoadU(d, b);
    s[r][1] = hn::LoadU(d, b + lanes);
  }
  b += 2 * lanes;
  for (size_t i = 0; i < n_units; ++i, b += 2 * lanes) {
    const auto b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRowsAtOnce; ++r) {
      const auto x = hn::Set(d, a[r * row_stride + i]);
      s[r][0] = Op::add(x, b0, s[r][0]);
      s[r][1] = Op::add(x, b1, s[r][1]);
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRowsAtOnce; ++r) {
    hn::StoreU(s[r][0], d, sums + r * 2 * lanes);
    hn::StoreU(s[r][1], d, sums + r * 2 * lanes + lanes);
  }
}

// Converts a row to units. Returns its scale.
template <class In>
float convert_units(const In* in, const VectorWeight& weight, uint32_t* units) {
  const size_t n = weight.n_in;
  float scale = 1.0f;
  if (weight.compute == Compute::kF32) {
    convert_row(in, n, reinterpret_cast<float*>(units));
  } else if (weight.compute == Compute::kBF16) {
    Bf16Bits* halves = reinterpret_cast<Bf16Bits*>(units);
    convert_row(in, n, halves);
    for (size_t i = n; i-- > 0;) units[i] = uint32_t{halves[i]} << 16;
  } else {
    scale = row_scale_i8(in, n);
    int8_t* bytes = reinterpret_cast<int8_t*>(units);
    quantize_row(in, n, scale, bytes);
    if (weight.unit == VectorUnit::kF32) {
      float* whole = reinterpret_cast<float*>(units);
      for (size_t i = n; i-- > 0;) whole[i] = bytes[i];
    } else if (weight.unit == VectorUnit::kInt16Pair) {
      int16_t* shorts = reinterpret_cast<int16_t*>(units);
      for (size_t i = n; i-- > 0;) shorts[i] = bytes[i];
      if (n % 2) shorts[n] = 0;
    } else {
      for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<int8_t>(bytes[i] ^ -128);  // + 128
      for (size_t i = n; i % 4 != 0; ++i) bytes[i] = 0;  // their weights are 0
    }
  }
  return scale;
}

// Finishes `n` sums of row `row`, from output `column` on.
template <class Sum>
HWY_NOINLINE void finish_columns(const VectorWeight& weight, const MatmulParams& params,
                                 const MatmulOperands& operands, uint32_t row, size_t column,
                                 size_t n, const Sum* sums, float row_scale) {
  const float* column_scale = weight.column_scale ? weight.column_scale + column : nullptr;
  const float* bias = operands.bias ? operands.bias + column : nullptr;
  const float* residual = operands.residual
                              ? operands.residual + matmul_residual_offset(params, row) + column
                              : nullptr;
  const bool with_gelu = (params.flags & kMatmulGelu) != 0;
  const size_t at = matmul_out_offset(params, row) + column;
  switch (params.out_dtype) {
    case kDTypeF32:
      return finish_row(sums, n, row_scale, column_scale, bias, with_gelu, residual,
                        static_cast<float*>(operands.out) + at);
    case kDTypeF16:
      return finish_row(sums, n, row_scale, column_scale, bias, with_gelu, residual,
                        static_cast<hwy::float16_t*>(operands.out) + at);
    default:
      return finish_row(sums, n, row_scale, column_scale, bias, with_gelu, residual,
                        static_cast<Bf16Bits*>(operands.out) + at);
  }
}

template <class Op>
void multiply_rows(const VectorWeight& weight, const MatmulParams& params,
                   const MatmulOperands& operands, uint32_t first_row, uint32_t n_rows,
                   uint32_t* scratch) {
  const size_t stride = row_units(weight.n_in, weight.unit);
  const size_t n_units = units_of(weight.n_in, weight.unit);
  const size_t n_padded = (n_rows + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
  uint32_t* rows = scratch;
  float* row_scale = reinterpret_cast<float*>(rows + n_padded * stride);
  for (size_t r = 0; r < n_rows; ++r) {
    const size_t at = matmul_in_offset(params, first_row + r);
    switch (params.in_dtype) {
      case kDTypeF32:
        row_scale[r] =
            convert_units(static_cast<const float*>(operands.in) + at, weight, rows + r * stride);
        break;
      case kDTypeF16:
        row_scale[r] = convert_units(static_cast<const hwy::float16_t*>(operands.in) + at, weight,
                                     rows + r * stride);
        break;
      default:
        row_scale[r] = convert_units(static_cast<const Bf16Bits*>(operands.in) + at, weight,
                                     rows + r * stride);
    }
  }
  for (size_t r = n_rows; r < n_padded; ++r) {
    std::memset(rows + r * stride, 0, n_units * sizeof(uint32_t));
  }

  const size_t width = panel_outputs();
  typename Op::Sum sums[kRowsAtOnce * 2 * HWY_MAX_BYTES / sizeof(float)];
  for (size_t column = 0; column < weight.n_out; column += width) {
    const uint32_t* panel = weight.panels + column * (n_units + 1);
    const size_t n = std::min<size_t>(width, weight.n_out - column);
    for (size_t first = 0; first < n_rows; first += kRowsAtOnce) {
      multiply_panel<Op>(rows + first * stride, stride, panel, n_units, sums);
      for (size_t r = first; r < std::min<size_t>(first + kRowsAtOnce, n_rows); ++r) {
        finish_columns(weight, params, operands, static_cast<uint32_t>(first_row + r), column, n,
                       sums + (r - first) * width, row_scale[r]);
      }
    }
  }
}

void multiply(const VectorWeight& weight, const MatmulParams& params,
              const MatmulOperands& operands, uint32_t first_row, uint32_t n_rows,
              uint32_t* scratch) {
  switch (weight.unit) {
    case VectorUnit::kInt8Quad:
      return multiply_rows<MultiplyInt8Quad>(weight, params, operands, first_row, n_rows, scratch);
    case VectorUnit::kInt16Pair:
      return multiply_rows<MultiplyInt16Pair>(weight, params, operands, first_row, n_rows, scratch);
    default:
      return multiply_rows<MultiplyF32>(weight, params, operands, first_row, n_rows, scratch);
  }
}

// Whether the instruction set has products of int16 pairs.
bool has_int16_pairs() { return !std::is_same_v<MultiplyInt16Pair, MultiplyF32>; }
// Whether it has those of int8 quads.
bool has_int8_quads() {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return cpu_features().avx512_vnni;
#elif HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  return cpu_features().avx_vnni;
#else
  return false;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(panel_outputs);
HWY_EXPORT(multiply);
HWY_EXPORT(has_int16_pairs);
HWY_EXPORT(has_int8_quads);

namespace {

// Where element i of output o of a weight lies. The first row of a panel is that of initial sums.
template <class Element>
Element* element(size_t o, size_t i, size_t n_units, size_t width, uint32_t* panels) {
  constexpr size_t kPerUnit = sizeof(uint32_t) / sizeof(Element);
  uint32_t* unit = panels + (o / width * (n_units + 1) + 1 + i / kPerUnit) * width + o % width;
  return reinterpret_cast<Element*>(unit) + i % kPerUnit;
}

template <class To, class From>
void pack(const From* weight, uint32_t n_out, uint32_t n_in, VectorUnit unit, uint32_t* panels) {
  const size_t n_units = units_of(n_in, unit), width = HWY_DYNAMIC_DISPATCH(panel_outputs)();
  for (size_t o = 0; o < n_out; ++o) {
    int32_t sum = 0;
    for (size_t i = 0; i < n_in; ++i) {
      const From value = weight[o * n_in + i];
      if constexpr (std::is_same_v<From, uint16_t>) {
        *element<To>(o, i, n_units, width, panels) = To{value} << 16;  // the bits of the f32
      } else {
        *element<To>(o, i, n_units, width, panels) = static_cast<To>(value);
        sum += static_cast<int32_t>(value);
      }
    }
    if (unit == VectorUnit::kInt8Quad) {
      uint32_t* initial = panels + o / width * (n_units + 1) * width + o % width;
      *reinterpret_cast<int32_t*>(initial) = -128 * sum;
    }
  }
}

}  // namespace

VectorUnit vector_unit(Compute compute) {
  if (compute != Compute::kI8) return VectorUnit::kF32;
  if (HWY_DYNAMIC_DISPATCH(has_int8_quads)()) return VectorUnit::kInt8Quad;
  return HWY_DYNAMIC_DISPATCH(has_int16_pairs)() ? VectorUnit::kInt16Pair : VectorUnit::kF32;
}

size_t vector_weight_bytes(uint32_t n_out, uint32_t n_in, VectorUnit unit) {
  const size_t width = HWY_DYNAMIC_DISPATCH(panel_outputs)();
  return (n_out + width - 1) / width * width * (units_of(n_in, unit) + 1) * sizeof(uint32_t);
}

void vector_pack_weight(const float* weight, uint32_t n_out, uint32_t n_in, VectorUnit unit,
                        uint32_t* panels) {
  pack<float>(weight, n_out, n_in, unit, panels);
}
void vector_pack_weight(const uint16_t* weight, uint32_t n_out, uint32_t n_in, VectorUnit unit,
                        uint32_t* panels) {
  pack<uint32_t>(weight, n_out, n_in, unit, panels);
}
void vector_pack_weight(const int8_t* weight, uint32_t n_out, uint32_t n_in, VectorUnit unit,
                        uint32_t* panels) {
  switch (unit) {
    case VectorUnit::kInt8Quad:
      return pack<int8_t>(weight, n_out, n_in, unit, panels);
    case VectorUnit::kInt16Pair:
      return pack<int16_t>(weight, n_out, n_in, unit, panels);
    default:
      return pack<float>(weight, n_out, n_in, unit, panels);
  }
}

size_t vector_matmul_scratch_bytes(const VectorWeight& weight, uint32_t n_rows) {
  const size_t rows = (size_t{n_rows} + kVectorRowStep - 1) / kVectorRowStep * kVectorRowStep;
  return rows * (row_units(weight.n_in, weight.unit) + 1) * sizeof(uint32_t);
}

void vector_matmul(const VectorWeight& weight, const MatmulParams& params,
                   const MatmulOperands& operands, uint32_t first_row, uint32_t n_rows,
                   void* scratch) {
  HWY_DYNAMIC_DISPATCH(multiply)
  (weight, params, operands, first_row, n_rows, static_cast<uint32_t*>(scratch));
}

}  // namespace vesper
#endif

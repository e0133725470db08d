#include "llm/cpu/matmul/encoder_matmul_vector.h"

#include <algorithm>
#include <cstring>

#include "llm/cpu/cpu_features.h"
#include "llm/cpu/matmul/matmul_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/matmul/encoder_matmul_vector.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "llm/cpu/matmul/encoder_rows-inl.h"
#include "llm/cpu/matmul/multiply_add-inl.h"

#ifndef VESPER_VECTOR_MATMUL_LAYOUT
#define VESPER_VECTOR_MATMUL_LAYOUT
namespace vesper {
namespace {

size_t units_of(uint32_t n_in, VectorUnit unit) {
  const size_t per_unit = unit == VectorUnit::kF32 ? 1 : unit == VectorUnit::kInt8Quad ? 4 : 2;
  return (n_in + per_unit - 1) / per_unit;
}
// From row to row of the converted input, in units: not a power of two, for rows that lie a power
// of two apart share few lines of the cache.
size_t row_units(uint32_t n_in, VectorUnit unit) {
  return (units_of(n_in, unit) + 15) / 16 * 16 + 16;
}

// Where a row's results go, in elements, and what its sums are multiplied with.
struct RowPlace {
  size_t out, residual;
  float scale;
};

// What a task has in its thread's scratch, in bytes from its start.
struct ScratchParts {
  size_t places;  // the converted rows come first
  size_t total;

  ScratchParts(const VectorWeight& weight, uint32_t n_rows) {
    const size_t n_padded = (n_rows + kVectorRowStep - 1) / kVectorRowStep * kVectorRowStep;
    places = n_padded * row_units(weight.n_in, weight.unit) * sizeof(uint32_t);
    total = places + n_rows * sizeof(RowPlace);
  }
};

// Whether the kernel may read the rows of a product where they lie: they have the weight's format,
// are whole units, lie at one distance from each other, and that is not a multiple of 4 KiB, whose
// lines would push each other out of the first-level cache.
bool read_in_place(const VectorWeight& weight, const MatmulParams& params, size_t first_row,
                   size_t n_rows) {
  const size_t per_unit = weight.unit == VectorUnit::kF32 ? 1 : 2;
  const uint32_t dtype = weight.unit == VectorUnit::kF32 ? kDTypeF32 : kDTypeBF16;
  const bool is_kept =
      weight.compute == (weight.unit == VectorUnit::kF32 ? Compute::kF32 : Compute::kBF16);
  const size_t first = matmul_in_offset(params, first_row);
  const size_t last = matmul_in_offset(params, first_row + n_rows - 1);
  return is_kept && params.in_dtype == dtype && weight.n_in % per_unit == 0 &&
         first % per_unit == 0 && params.in_row_stride % per_unit == 0 &&
         last - first == (n_rows - 1) * size_t{params.in_row_stride} &&
         params.in_row_stride / per_unit * sizeof(uint32_t) % 4096 != 0;
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
// The last rows of a task go through in fewer, a multiple of kRowStep.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr size_t kRowsAtOnce = 12, kRowStep = 4;
#else
constexpr size_t kRowsAtOnce = 6, kRowStep = 2;
#endif
static_assert(kVectorRowStep % kRowStep == 0 && kRowsAtOnce == 3 * kRowStep);

size_t panel_outputs() { return 2 * hn::Lanes(F32()); }

// sums [kRows][2 vectors] = rows (row_stride units apart) times a panel of n_units.
template <class Op, size_t kRows>
HWY_NOINLINE void multiply_panel(const uint32_t* HWY_RESTRICT rows, size_t row_stride,
                                 const uint32_t* HWY_RESTRICT panel, size_t n_units,
                                 typename Op::Sum* HWY_RESTRICT sums) {
  const typename Op::Tag d;
  using Unit = hn::TFromD<typename Op::Tag>;
  const size_t lanes = hn::Lanes(d);
  const Unit* a = reinterpret_cast<const Unit*>(rows);
  const Unit* b = reinterpret_cast<const Unit*>(panel);
  typename Op::Vec s[kRows][2];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    s[r][0] = hn::LoadU(d, b);
    s[r][1] = hn::LoadU(d, b + lanes);
  }
  b += 2 * lanes;
  for (size_t i = 0; i < n_units; ++i, b += 2 * lanes) {
    const auto b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, a[r * row_stride + i]);
      s[r][0] = Op::add(x, b0, s[r][0]);
      s[r][1] = Op::add(x, b1, s[r][1]);
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
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
    if (weight.unit == VectorUnit::kF32) {
      for (size_t i = n; i-- > 0;) units[i] = uint32_t{halves[i]} << 16;
    } else if (n % 2) {
      halves[n] = 0;
    }
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

// out = residual + activation(bias + sums * scales) for the rows of `sums`, [n_rows][2 vectors] of
// outputs from `column` on, n of them.
template <bool kActivates, class Sum, class Out>
HWY_NOINLINE void finish_panel(const VectorWeight& weight, const MatmulOperands& operands,
                               size_t column, size_t n, size_t n_rows, const RowPlace* rows,
                               uint32_t activation, const Sum* HWY_RESTRICT sums) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  const float* scales = weight.column_scale ? weight.column_scale + column : nullptr;
  const float* biases = operands.bias ? operands.bias + column : nullptr;
  const float* residual = operands.residual ? operands.residual + column : nullptr;
  Out* out = static_cast<Out*>(operands.out) + column;
  if (n < 2 * lanes) {
    for (size_t r = 0; r < n_rows; ++r) {
      finish_row(sums + r * 2 * lanes, n, rows[r].scale, scales, biases, activation,
                 residual ? residual + rows[r].residual : nullptr, out + rows[r].out);
    }
    return;
  }
  hn::Vec<F32> bias[2], scale[2];
  for (size_t h = 0; h < 2; ++h) {
    bias[h] = biases ? hn::LoadU(d, biases + h * lanes) : hn::Zero(d);
    scale[h] = scales ? hn::LoadU(d, scales + h * lanes) : hn::Set(d, 1.0f);
  }
  for (size_t r = 0; r < n_rows; ++r, sums += 2 * lanes) {
    for (size_t h = 0; h < 2; ++h) {
      hn::Vec<F32> x;
      if constexpr (std::is_same_v<Sum, int32_t>) {
        x = hn::ConvertTo(d, hn::LoadU(I32(), sums + h * lanes));
      } else {
        x = hn::LoadU(d, sums + h * lanes);
      }
      if (scales) x = hn::Mul(x, hn::Mul(hn::Set(d, rows[r].scale), scale[h]));
      x = hn::Add(x, bias[h]);
      if constexpr (kActivates) x = activate<std::is_same_v<Out, float>>(d, activation, x);
      if (residual) x = hn::Add(x, hn::LoadU(d, residual + rows[r].residual + h * lanes));
      store_f32(d, x, out + rows[r].out + h * lanes);
    }
  }
}

template <class Sum>
using FinishPanel = void (*)(const VectorWeight&, const MatmulOperands&, size_t column, size_t n,
                             size_t n_rows, const RowPlace*, uint32_t activation, const Sum*);

template <class Sum>
FinishPanel<Sum> choose_finish(const MatmulParams& params) {
  const bool activates = params.activation != kActivationNone;
  switch (params.out_dtype) {
    case kDTypeF32:
      return activates ? finish_panel<true, Sum, float> : finish_panel<false, Sum, float>;
    case kDTypeF16:
      return activates ? finish_panel<true, Sum, hwy::float16_t>
                       : finish_panel<false, Sum, hwy::float16_t>;
    default:
      return activates ? finish_panel<true, Sum, Bf16Bits> : finish_panel<false, Sum, Bf16Bits>;
  }
}

// Converts row `row` of a command to units. Returns its scale.
float read_row(const VectorWeight& weight, const MatmulParams& params, const void* in, size_t row,
               uint32_t* units) {
  const size_t at = matmul_in_offset(params, row);
  switch (params.in_dtype) {
    case kDTypeF32:
      return convert_units(static_cast<const float*>(in) + at, weight, units);
    case kDTypeF16:
      return convert_units(static_cast<const hwy::float16_t*>(in) + at, weight, units);
    default:
      return convert_units(static_cast<const Bf16Bits*>(in) + at, weight, units);
  }
}

// The first element of row `row` of an input that has the weight's format.
const uint32_t* row_in_place(const VectorWeight& weight, const MatmulParams& params, const void* in,
                             size_t row) {
  const size_t element = weight.unit == VectorUnit::kF32 ? sizeof(float) : sizeof(Bf16Bits);
  return reinterpret_cast<const uint32_t*>(static_cast<const uint8_t*>(in) +
                                           matmul_in_offset(params, row) * element);
}

// Asks for what finish_panel is going to write and to add, n columns of n_rows, to be there when
// the product is: in other cores' caches as a rule.
void fetch_results(const MatmulParams& params, const MatmulOperands& operands, size_t column,
                   size_t n, size_t n_rows, const RowPlace* rows) {
  constexpr size_t kLine = 64;
  const size_t size = params.out_dtype == kDTypeF32 ? sizeof(float) : sizeof(uint16_t);
  const uint8_t* out = static_cast<const uint8_t*>(operands.out);
  const float* residual = operands.residual != operands.out ? operands.residual : nullptr;
  for (size_t r = 0; r < n_rows; ++r) {
    const uint8_t* to = out + (rows[r].out + column) * size;
    for (size_t at = 0; at < n * size; at += kLine) __builtin_prefetch(to + at, 1);
    if (residual == nullptr) continue;
    const float* from = residual + rows[r].residual + column;
    for (size_t i = 0; i < n; i += kLine / sizeof(float)) __builtin_prefetch(from + i);
  }
}

template <class Op>
void multiply_rows(const VectorWeight& weight, const MatmulParams& params,
                   const MatmulOperands& operands, uint32_t first_row, uint32_t n_rows,
                   uint32_t* scratch) {
  const size_t n_units = units_of(weight.n_in, weight.unit);
  const size_t scratch_stride = row_units(weight.n_in, weight.unit);
  RowPlace* places = reinterpret_cast<RowPlace*>(reinterpret_cast<uint8_t*>(scratch) +
                                                 ScratchParts(weight, n_rows).places);
  // Rows of whole groups may be read where they lie; the last group has rows of zeros in addition.
  const bool in_place = read_in_place(weight, params, first_row, n_rows);
  const size_t n_in_place = in_place ? n_rows / kRowStep * kRowStep : 0;
  const size_t n_padded = (n_rows + kRowStep - 1) / kRowStep * kRowStep;
  for (size_t r = 0; r < n_rows; ++r) {
    places[r] = {matmul_out_offset(params, first_row + r),
                 matmul_residual_offset(params, first_row + r), 1.0f};
    if (r < n_in_place) continue;
    places[r].scale =
        read_row(weight, params, operands.in, first_row + r, scratch + r * scratch_stride);
  }
  for (size_t r = n_rows; r < n_padded; ++r) {
    std::memset(scratch + r * scratch_stride, 0, n_units * sizeof(uint32_t));
  }

  const size_t width = panel_outputs();
  const FinishPanel<typename Op::Sum> finish = choose_finish<typename Op::Sum>(params);
  typename Op::Sum sums[kRowsAtOnce * 2 * HWY_MAX_BYTES / sizeof(float)];
  for (size_t column = 0; column < weight.n_out; column += width) {
    const uint32_t* panel = weight.panels + column * (n_units + 1);
    const size_t n = std::min<size_t>(width, weight.n_out - column);
    size_t n_group = 0;
    for (size_t first = 0; first < n_rows; first += n_group) {
      const bool here = first < n_in_place;
      const size_t end = here ? n_in_place : n_padded;
      // Twice the same rather than so few at the end that loads hold the products up.
      n_group =
          end - first == kRowsAtOnce + kRowStep ? 2 * kRowStep : std::min(kRowsAtOnce, end - first);
      const size_t n_finished = std::min(n_group, n_rows - first);
      fetch_results(params, operands, column, n, n_finished, places + first);
      const uint32_t* rows = here ? row_in_place(weight, params, operands.in, first_row + first)
                                  : scratch + first * scratch_stride;
      const size_t stride =
          here ? params.in_row_stride / (weight.unit == VectorUnit::kF32 ? 1 : 2) : scratch_stride;
      if (n_group == kRowsAtOnce) {
        multiply_panel<Op, kRowsAtOnce>(rows, stride, panel, n_units, sums);
      } else if (n_group == 2 * kRowStep) {
        multiply_panel<Op, 2 * kRowStep>(rows, stride, panel, n_units, sums);
      } else {
        multiply_panel<Op, kRowStep>(rows, stride, panel, n_units, sums);
      }
      finish(weight, operands, column, n, n_finished, places + first, params.activation, sums);
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
    case VectorUnit::kBf16Pair:
      return multiply_rows<MultiplyBf16Pair>(weight, params, operands, first_row, n_rows, scratch);
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
// Whether it has those of bf16 pairs.
bool has_bf16_pairs() {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return cpu_features().avx512_bf16;
#else
  return false;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(has_bf16_pairs);
HWY_EXPORT(panel_outputs);
HWY_EXPORT(multiply);
HWY_EXPORT(has_int16_pairs);
HWY_EXPORT(has_int8_quads);

namespace {

template <class To, class From>
void pack(const From* rows, uint32_t first, uint32_t n_rows, uint32_t n_in, VectorUnit unit,
          uint32_t* panels) {
  constexpr size_t kPerUnit = sizeof(uint32_t) / sizeof(To);
  const size_t n_units = units_of(n_in, unit), width = HWY_DYNAMIC_DISPATCH(panel_outputs)();
  for (size_t row = 0; row < n_rows; ++row) {
    const size_t o = first + row;
    const From* const from = rows + row * n_in;
    // The first line of a panel is that of initial sums.
    uint32_t* const initial = panels + o / width * (n_units + 1) * width + o % width;
    uint32_t* const units = initial + width;
    int32_t sum = 0;
    for (size_t i = 0; i < n_in; ++i) {
      To* const to = reinterpret_cast<To*>(units + i / kPerUnit * width) + i % kPerUnit;
      if constexpr (std::is_same_v<From, uint16_t> && std::is_same_v<To, uint32_t>) {
        *to = To{from[i]} << 16;  // the bits of the f32
      } else {
        *to = static_cast<To>(from[i]);
        if constexpr (std::is_same_v<From, int8_t>) sum += from[i];
      }
    }
    if (unit == VectorUnit::kInt8Quad) *reinterpret_cast<int32_t*>(initial) = -128 * sum;
  }
}

}  // namespace

VectorUnit vector_unit(Compute compute) {
  if (compute == Compute::kBF16 && HWY_DYNAMIC_DISPATCH(has_bf16_pairs)()) {
    return VectorUnit::kBf16Pair;
  }
  if (compute != Compute::kI8) return VectorUnit::kF32;
  if (HWY_DYNAMIC_DISPATCH(has_int8_quads)()) return VectorUnit::kInt8Quad;
  return HWY_DYNAMIC_DISPATCH(has_int16_pairs)() ? VectorUnit::kInt16Pair : VectorUnit::kF32;
}

size_t vector_weight_bytes(uint32_t n_out, uint32_t n_in, VectorUnit unit) {
  const size_t width = HWY_DYNAMIC_DISPATCH(panel_outputs)();
  return (n_out + width - 1) / width * width * (units_of(n_in, unit) + 1) * sizeof(uint32_t);
}

void vector_pack_rows(const float* rows, uint32_t first, uint32_t n_rows, uint32_t n_in,
                      VectorUnit unit, uint32_t* panels) {
  pack<float>(rows, first, n_rows, n_in, unit, panels);
}
void vector_pack_rows(const uint16_t* rows, uint32_t first, uint32_t n_rows, uint32_t n_in,
                      VectorUnit unit, uint32_t* panels) {
  if (unit == VectorUnit::kBf16Pair) {
    return pack<uint16_t>(rows, first, n_rows, n_in, unit, panels);
  }
  pack<uint32_t>(rows, first, n_rows, n_in, unit, panels);
}
void vector_pack_rows(const int8_t* rows, uint32_t first, uint32_t n_rows, uint32_t n_in,
                      VectorUnit unit, uint32_t* panels) {
  switch (unit) {
    case VectorUnit::kInt8Quad:
      return pack<int8_t>(rows, first, n_rows, n_in, unit, panels);
    case VectorUnit::kInt16Pair:
      return pack<int16_t>(rows, first, n_rows, n_in, unit, panels);
    default:
      return pack<float>(rows, first, n_rows, n_in, unit, panels);
  }
}

size_t vector_matmul_scratch_bytes(const VectorWeight& weight, uint32_t n_rows) {
  return ScratchParts(weight, n_rows).total;
}

void vector_matmul(const VectorWeight& weight, const MatmulParams& params,
                   const MatmulOperands& operands, uint32_t first_row, uint32_t n_rows,
                   void* scratch) {
  HWY_DYNAMIC_DISPATCH(multiply)
  (weight, params, operands, first_row, n_rows, static_cast<uint32_t*>(scratch));
}

}  // namespace vesper
#endif

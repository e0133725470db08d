// Micro-kernels of dot-product instructions: pairs of bf16, quads of int8. Rows and weights are
// multiplied as stored, two or four times as many per instruction as f32.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "llm/cpu/matmul/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/matmul/gemm_dot.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"
#include "llm/cpu/matmul/multiply_add-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sum vectors per panel, and rows multiplied at once: as many as leave registers for the factors.
inline constexpr uint32_t kSumVectors = kPanelOutputs / hn::MaxLanes(hn::ScalableTag<float>());
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr uint32_t kRegisterSums = 24;
#else
inline constexpr uint32_t kRegisterSums = 12;
#endif
inline constexpr uint32_t kMostDotRows =
    std::clamp(kRegisterSums / kSumVectors, uint32_t{1}, kRegisterSums / 2);

// kRows rows by kPanels panels over the whole inner dimension.
template <class Op, uint32_t kRows, uint32_t kPanels>
HWY_NOINLINE void multiply_tile(const Gemm& gemm, uint32_t first_row, uint32_t first_panel) {
  constexpr uint32_t kVectors = kPanels * kSumVectors;
  constexpr size_t kUnitsBytes = kPanelOutputs * sizeof(uint32_t);
  const typename Op::Tag d;
  using Unit = hn::TFromD<typename Op::Tag>;
  using Vec = typename Op::Vec;
  const PackedLayout& layout = *gemm.layout;
  const size_t lane_bytes = hn::Lanes(d) * sizeof(Unit);
  const size_t n_units = (layout.n_in + Op::kPerUnit - 1) / Op::kPerUnit;
  // Every third row has a pointer; an index register reaches the next two.
  constexpr uint32_t kThirds = (kRows + 2) / 3;
  const size_t row_bytes = gemm.row_bytes;
  const std::byte* third[kThirds] = {static_cast<const std::byte*>(gemm.rows) +
                                     first_row * row_bytes};
#pragma GCC unroll 4
  for (uint32_t t = 1; t < kThirds; ++t) third[t] = third[t - 1] + 3 * row_bytes;
  const std::byte* weights = gemm.panels + first_panel * layout.panel_bytes;
  const auto load = [&](const std::byte* from, uint32_t v) HWY_ATTR {
    return hn::LoadU(d, reinterpret_cast<const Unit*>(from + v / kSumVectors * layout.panel_bytes +
                                                      v % kSumVectors * lane_bytes));
  };
  Vec sums[kRows][kVectors];
#pragma GCC unroll 16
  for (uint32_t v = 0; v < kVectors; ++v) {
    Vec start = hn::Zero(d);
    if constexpr (std::is_same_v<Op, MultiplyInt8Quad>) {
      // Rows have an offset of 128.
      start = hn::Sub(
          start, hn::ShiftLeft<7>(load(weights + size_t{layout.padded_n_in} * kPanelOutputs, v)));
    }
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) sums[r][v] = start;
  }
  for (size_t i = 0; i < n_units; ++i, weights += kUnitsBytes) {
    Vec weight[kVectors];
#pragma GCC unroll 16
    for (uint32_t v = 0; v < kVectors; ++v) weight[v] = load(weights, v);
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) {
      Unit unit;
      std::memcpy(&unit, third[r / 3] + r % 3 * row_bytes, sizeof unit);
      const Vec x = hn::Set(d, unit);
#pragma GCC unroll 16
      for (uint32_t v = 0; v < kVectors; ++v) sums[r][v] = Op::add(x, weight[v], sums[r][v]);
    }
#pragma GCC unroll 4
    for (uint32_t t = 0; t < kThirds; ++t) third[t] += sizeof(Unit);
  }
  const size_t panel_stride = gemm.sums.panel_stride;
  float* const sums_of_rows =
      gemm.sums.data + first_panel * panel_stride + size_t{first_row} * kPanelOutputs;
#pragma GCC unroll 16
  for (uint32_t v = 0; v < kVectors; ++v) {
    auto* const to = reinterpret_cast<Unit*>(sums_of_rows + v / kSumVectors * panel_stride) +
                     v % kSumVectors * hn::Lanes(d);
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) hn::StoreU(sums[r][v], d, to + r * kPanelOutputs);
  }
}

// Several panels at once, as registers allow: enough sums in flight, and each row's unit is read
// once for them.
template <class Op, uint32_t kRows>
void multiply_rows(const Gemm& gemm, uint32_t first_row) {
  constexpr uint32_t kFit = kRegisterSums / (kRows * kSumVectors);
  uint32_t panel = 0;
  if constexpr (kFit >= 4) {
    for (; panel + 4 <= gemm.n_panels; panel += 4)
      multiply_tile<Op, kRows, 4>(gemm, first_row, panel);
  }
  if constexpr (kFit >= 2) {
    for (; panel + 2 <= gemm.n_panels; panel += 2)
      multiply_tile<Op, kRows, 2>(gemm, first_row, panel);
  }
  for (; panel < gemm.n_panels; ++panel) multiply_tile<Op, kRows, 1>(gemm, first_row, panel);
}

template <class Op>
void multiply([[maybe_unused]] const Gemm& gemm) {
  // Only if the instruction set has the instruction.
  if constexpr (!std::is_same_v<Op, MultiplyF32>) {
    using MultiplyRows = void (*)(const Gemm&, uint32_t);
    static constexpr auto kMultiplyRows =
        []<uint32_t... kLess>(std::integer_sequence<uint32_t, kLess...>) {
      return std::array<MultiplyRows, sizeof...(kLess)>{multiply_rows<Op, kLess + 1>...};
    }
    (std::make_integer_sequence<uint32_t, kMostDotRows>());
    // As many rows at a time as registers allow, in nearly equal parts.
    uint32_t row = 0;
    for (uint32_t n_times = (gemm.n_rows + kMostDotRows - 1) / kMostDotRows; n_times > 0;
         --n_times) {
      const uint32_t n = (gemm.n_rows - row + n_times - 1) / n_times;
      kMultiplyRows[n - 1](gemm, row);
      row += n;
    }
  }
}

void multiply_bf16_pairs(const Gemm& gemm) { multiply<MultiplyBf16Pair>(gemm); }
void multiply_int8_quads(const Gemm& gemm) { multiply<MultiplyInt8Quad>(gemm); }
void multiply_int8(const Gemm& gemm) { multiply<MultiplySignedInt8Quad>(gemm); }

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(multiply_bf16_pairs);
HWY_EXPORT(multiply_int8_quads);
HWY_EXPORT(multiply_int8);

void gemm_bf16_pairs(const Gemm& gemm) { HWY_DYNAMIC_DISPATCH(multiply_bf16_pairs)(gemm); }
void gemm_int8_quads(const Gemm& gemm) { HWY_DYNAMIC_DISPATCH(multiply_int8_quads)(gemm); }
void gemm_int8(const Gemm& gemm) { HWY_DYNAMIC_DISPATCH(multiply_int8)(gemm); }

}  // namespace vesper
#endif

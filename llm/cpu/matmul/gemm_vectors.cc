// Micro-kernels of f32 multiply-adds, for any CPU. Rows are f32; 16-bit weights are widened in
// registers.
#include "llm/cpu/matmul/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/matmul/gemm_vectors.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"
#include "llm/cpu/numbers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

// One lane: no pairs in a vector. The order is that of the vectors: even and odd inputs are
// separate.
template <class T>
void multiply_panels(const Gemm& gemm) {
  const uint32_t n_in = gemm.layout->n_in;
  for (uint32_t p = 0; p < gemm.n_panels; ++p) {
    const T* panel = reinterpret_cast<const T*>(gemm.panels + p * gemm.layout->panel_bytes);
    for (uint32_t r = 0; r < gemm.n_rows; ++r) {
      const float* row = static_cast<const float*>(gemm.rows) + r * gemm.row_bytes / sizeof(float);
      float* sums = sums_at(gemm, r, p);
      for (uint32_t o = 0; o < kPanelOutputs; ++o) {
        float sum[2] = {};
        for (uint32_t i = 0; i < n_in; ++i) {
          sum[i % 2] += row[i] * to_f32(panel[(i / 2) * 2 * kPanelOutputs + o * 2 + i % 2]);
        }
        sums[o] = sum[0] + sum[1];
      }
    }
  }
}

#else

// A pair of inputs in every pair of lanes.
HWY_INLINE VF32 broadcast_pair(const float* pair) {
  const hn::Repartition<uint64_t, F32> d64;
  uint64_t bits;
  std::memcpy(&bits, pair, sizeof(bits));
  return hn::BitCast(F32(), hn::Set(d64, bits));
}

// With 32 registers, each weight vector stays while the rows pass; with 16, each row's pair is
// loaded again for every weight vector.
inline constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
inline constexpr uint32_t kVectorsPerPanel = 2 * kPanelOutputs / kLanes;

// kRows rows by kPanels panels. The sums of even and odd inputs are in neighbouring lanes until the
// end.
template <uint32_t kRows, uint32_t kPanels, class T>
HWY_NOINLINE void multiply_tile(const Gemm& gemm, uint32_t first_row, uint32_t first_panel) {
  constexpr uint32_t kVectors = kPanels * kVectorsPerPanel;
  const F32 d;
  const size_t stride = gemm.row_bytes / sizeof(float);
  const float* rows = static_cast<const float*>(gemm.rows) + first_row * stride;
  const size_t panel_elements = gemm.layout->panel_bytes / sizeof(T);
  const T* weights = reinterpret_cast<const T*>(gemm.panels) + first_panel * panel_elements;
  const uint32_t n_in = gemm.layout->n_in;

  VF32 sums[kRows][kVectors];
  HWY_UNROLL(16)
  for (uint32_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (uint32_t v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  const auto add_pairs = [&](const float* pairs, size_t pair_stride, const T* at) HWY_ATTR
      __attribute__((always_inline)) {
    if constexpr (kManyRegisters) {
      VF32 weight[kVectors];
      HWY_UNROLL(16)
      for (uint32_t v = 0; v < kVectors; ++v) {
        weight[v] = load_f32(at + (v / kVectorsPerPanel) * panel_elements +
                             (v % kVectorsPerPanel) * kLanes);
      }
      HWY_UNROLL(16)
      for (uint32_t r = 0; r < kRows; ++r) {
        const VF32 pair = broadcast_pair(pairs + r * pair_stride);
        HWY_UNROLL(16)
        for (uint32_t v = 0; v < kVectors; ++v) {
          sums[r][v] = hn::MulAdd(pair, weight[v], sums[r][v]);
        }
      }
    } else {
      HWY_UNROLL(16)
      for (uint32_t v = 0; v < kVectors; ++v) {
        const VF32 weight = load_f32(at + (v / kVectorsPerPanel) * panel_elements +
                                     (v % kVectorsPerPanel) * kLanes);
        HWY_UNROLL(16)
        for (uint32_t r = 0; r < kRows; ++r) {
          sums[r][v] = hn::MulAdd(broadcast_pair(pairs + r * pair_stride), weight, sums[r][v]);
        }
      }
    }
  };
  // Prefetches the panels after these.
  const auto* const next =
      reinterpret_cast<const char*>(weights) + size_t{gemm.n_panels} * gemm.layout->panel_bytes;
  constexpr size_t kPairBytes = 2 * kPanelOutputs * sizeof(T), kCacheLine = 64;
  const uint32_t n_pairs = n_in / 2;
  for (uint32_t i = 0; i < n_pairs; ++i) {
    for (size_t line = 0; line < kPanels * kPairBytes; line += kCacheLine) {
      const size_t panel = line / kPairBytes, within = line % kPairBytes;
      __builtin_prefetch(next + panel * gemm.layout->panel_bytes + i * kPairBytes + within, 0, 2);
    }
    add_pairs(rows + 2 * i, stride, weights + size_t{i} * 2 * kPanelOutputs);
  }
  if (n_in % 2 != 0) {
    float last[kRows][2];
    for (uint32_t r = 0; r < kRows; ++r) {
      last[r][0] = rows[r * stride + n_in - 1];
      last[r][1] = 0.0f;
    }
    add_pairs(last[0], 2, weights + size_t{n_pairs} * 2 * kPanelOutputs);
  }
  HWY_UNROLL(16)
  for (uint32_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (uint32_t v = 0; v < kVectors; v += 2) {
      const VF32 sum = hn::Add(hn::ConcatEven(d, sums[r][v + 1], sums[r][v]),
                               hn::ConcatOdd(d, sums[r][v + 1], sums[r][v]));
      float* to = sums_at(gemm, first_row + r, first_panel + v / kVectorsPerPanel);
      hn::StoreU(sum, d, to + (v % kVectorsPerPanel) / 2 * kLanes);
    }
  }
}

template <uint32_t kRows, uint32_t kPanels, class T>
HWY_INLINE void multiply_all_panels(const Gemm& gemm, uint32_t first_row) {
  uint32_t panel = 0;
  for (; panel + kPanels <= gemm.n_panels; panel += kPanels) {
    multiply_tile<kRows, kPanels, T>(gemm, first_row, panel);
  }
  for (; panel < gemm.n_panels; ++panel) {
    multiply_tile<kRows, 1, T>(gemm, first_row, panel);
  }
}

// Tiles as large as the registers hold: 24 of 32 registers for sums, 12 of 16, at least 8 so that
// additions do not wait for each other.
template <class T>
void multiply_panels(const Gemm& gemm) {
  const uint32_t n = gemm.n_rows;
  uint32_t row = 0;
  if constexpr (kManyRegisters) {
    for (; row + 12 <= n; row += 12) multiply_all_panels<12, 1, T>(gemm, row);
    if (n - row >= 8) multiply_all_panels<8, 1, T>(gemm, row), row += 8;
    if (n - row >= 6) multiply_all_panels<6, 2, T>(gemm, row), row += 6;
    if (n - row == 5) multiply_all_panels<5, 2, T>(gemm, row), row += 5;
    if (n - row >= 4) multiply_all_panels<4, 2, T>(gemm, row), row += 4;
    if (n - row == 3) multiply_all_panels<3, 4, T>(gemm, row);
    if (n - row == 2) multiply_all_panels<2, 4, T>(gemm, row);
    if (n - row == 1) multiply_all_panels<1, 4, T>(gemm, row);
  } else if constexpr (kVectorsPerPanel <= 4) {
    for (; row + 3 <= n; row += 3) multiply_all_panels<3, 1, T>(gemm, row);
    if (n - row == 2) multiply_all_panels<2, 1, T>(gemm, row);
    if (n - row == 1) multiply_all_panels<1, 2, T>(gemm, row);
  } else {
    for (; row < n; ++row) multiply_all_panels<1, 1, T>(gemm, row);
  }
}

#endif

void multiply_f32(const Gemm& gemm) { multiply_panels<float>(gemm); }
void multiply_f16(const Gemm& gemm) { multiply_panels<F16>(gemm); }
void multiply_bf16(const Gemm& gemm) { multiply_panels<BF16>(gemm); }

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(multiply_f32);
HWY_EXPORT(multiply_f16);
HWY_EXPORT(multiply_bf16);

void gemm_f32(const Gemm& gemm) { HWY_DYNAMIC_DISPATCH(multiply_f32)(gemm); }
void gemm_f16(const Gemm& gemm) { HWY_DYNAMIC_DISPATCH(multiply_f16)(gemm); }
void gemm_bf16(const Gemm& gemm) { HWY_DYNAMIC_DISPATCH(multiply_bf16)(gemm); }

}  // namespace vesper
#endif

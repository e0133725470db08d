#include "llm/cpu/matmul/panel_product.h"

#include <algorithm>

#include "llm/cpu/cpu_features.h"
#include "llm/cpu/matmul/block_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/matmul/panel_product.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway demands.
#include "hwy/highway.h"
#include "llm/cpu/numbers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

// One lane: no pairs to share a vector. The order is that of the vectors: even inputs and odd ones
// apart.
template <class T>
void multiply_panels(const PanelProduct& product) {
  const uint32_t n_in = product.layout->n_in;
  for (uint32_t p = 0; p < product.n_panels; ++p) {
    const T* panel = reinterpret_cast<const T*>(product.panels + p * product.layout->panel_bytes);
    for (uint32_t r = 0; r < product.n_rows; ++r) {
      const float* row = static_cast<const float*>(product.rows) + r * product.row_stride;
      float* sums = sums_of(product, r, p);
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

void multiply_panels_int8(const PanelProduct& product) {
  const uint32_t n_in = product.layout->n_in;
  for (uint32_t p = 0; p < product.n_panels; ++p) {
    const auto* panel =
        reinterpret_cast<const int8_t*>(product.panels + p * product.layout->panel_bytes);
    for (uint32_t r = 0; r < product.n_rows; ++r) {
      const float* row = static_cast<const float*>(product.rows) + r * product.row_stride;
      float* sums = product.sums + (size_t{p} * product.n_rows + r) * kPanelOutputs;
      for (uint32_t o = 0; o < kPanelOutputs; ++o) {
        float sum = 0.0f;
        for (uint32_t i = 0; i < n_in; ++i) {
          sum += row[i] * static_cast<float>(panel[(i / 4) * 4 * kPanelOutputs + o * 4 + i % 4]);
        }
        sums[o] = sum;
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

// 32 registers: each weight vector is kept while the rows pass; 16: each row's pair is fetched anew
// for every weight vector.
inline constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
inline constexpr uint32_t kVectorsPerPanel = 2 * kPanelOutputs / kLanes;

// kRows rows times kPanels panels. The sums of even and odd inputs lie in neighbouring lanes until
// the end.
template <uint32_t kRows, uint32_t kPanels, class T>
HWY_NOINLINE void multiply_tile(const PanelProduct& product, uint32_t first_row,
                                uint32_t first_panel) {
  constexpr uint32_t kVectors = kPanels * kVectorsPerPanel;
  const F32 d;
  const size_t stride = product.row_stride;
  const float* rows = static_cast<const float*>(product.rows) + first_row * stride;
  const size_t panel_elements = product.layout->panel_bytes / sizeof(T);
  const T* weights = reinterpret_cast<const T*>(product.panels) + first_panel * panel_elements;
  const uint32_t n_in = product.layout->n_in;

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
  // While these panels are multiplied, the memory brings those after them.
  const auto* const next = reinterpret_cast<const char*>(weights) +
                           size_t{product.n_panels} * product.layout->panel_bytes;
  constexpr size_t kPairBytes = 2 * kPanelOutputs * sizeof(T), kCacheLine = 64;
  const uint32_t n_pairs = n_in / 2;
  for (uint32_t i = 0; i < n_pairs; ++i) {
    for (size_t line = 0; line < kPanels * kPairBytes; line += kCacheLine) {
      const size_t panel = line / kPairBytes, within = line % kPairBytes;
      __builtin_prefetch(next + panel * product.layout->panel_bytes + i * kPairBytes + within, 0,
                         2);
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
      float* to = sums_of(product, first_row + r, first_panel + v / kVectorsPerPanel);
      hn::StoreU(sum, d, to + (v % kVectorsPerPanel) / 2 * kLanes);
    }
  }
}

template <uint32_t kRows, uint32_t kPanels, class T>
HWY_INLINE void multiply_all_panels(const PanelProduct& product, uint32_t first_row) {
  uint32_t panel = 0;
  for (; panel + kPanels <= product.n_panels; panel += kPanels) {
    multiply_tile<kRows, kPanels, T>(product, first_row, panel);
  }
  for (; panel < product.n_panels; ++panel) {
    multiply_tile<kRows, 1, T>(product, first_row, panel);
  }
}

// Tiles as large as the registers hold: 24 vectors of sums of 32, 12 of 16, at least 8 so that
// additions need not wait for each other.
template <class T>
void multiply_panels(const PanelProduct& product) {
  const uint32_t n = product.n_rows;
  uint32_t row = 0;
  if constexpr (kManyRegisters) {
    for (; row + 12 <= n; row += 12) multiply_all_panels<12, 1, T>(product, row);
    if (n - row >= 8) multiply_all_panels<8, 1, T>(product, row), row += 8;
    if (n - row >= 6) multiply_all_panels<6, 2, T>(product, row), row += 6;
    if (n - row == 5) multiply_all_panels<5, 2, T>(product, row), row += 5;
    if (n - row >= 4) multiply_all_panels<4, 2, T>(product, row), row += 4;
    if (n - row == 3) multiply_all_panels<3, 4, T>(product, row);
    if (n - row == 2) multiply_all_panels<2, 4, T>(product, row);
    if (n - row == 1) multiply_all_panels<1, 4, T>(product, row);
  } else if constexpr (kVectorsPerPanel <= 4) {
    for (; row + 3 <= n; row += 3) multiply_all_panels<3, 1, T>(product, row);
    if (n - row == 2) multiply_all_panels<2, 1, T>(product, row);
    if (n - row == 1) multiply_all_panels<1, 2, T>(product, row);
  } else {
    for (; row < n; ++row) multiply_all_panels<1, 1, T>(product, row);
  }
}

HWY_INLINE VF32 load_f32(const int8_t* from) {
  const hn::Rebind<int8_t, F32> d8;
  const hn::Rebind<int32_t, F32> d32;
  return hn::ConvertTo(F32(), hn::PromoteTo(d32, hn::LoadU(d8, from)));
}

// Whole numbers as f32: four inputs of an output lie in neighbouring lanes.
void multiply_panels_int8(const PanelProduct& product) {
  const F32 d;
  constexpr uint32_t kVectors = 4 * kPanelOutputs / kLanes, kAtOnce = 4;
  const uint32_t n_fours = product.layout->padded_n_in / 4;
  for (uint32_t p = 0; p < product.n_panels; ++p) {
    const auto* panel =
        reinterpret_cast<const int8_t*>(product.panels + p * product.layout->panel_bytes);
    for (uint32_t r = 0; r < product.n_rows; ++r) {
      const float* row = static_cast<const float*>(product.rows) + r * product.row_stride;
      float* to = product.sums + (size_t{p} * product.n_rows + r) * kPanelOutputs;
      for (uint32_t first = 0; first < kVectors; first += kAtOnce) {
        VF32 s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
        const int8_t* at = panel + first * kLanes;
        for (uint32_t i = 0; i < n_fours; ++i, at += 4 * kPanelOutputs) {
          const VF32 four = hn::LoadDup128(d, row + 4 * i);
          s0 = hn::MulAdd(four, load_f32(at), s0);
          s1 = hn::MulAdd(four, load_f32(at + kLanes), s1);
          s2 = hn::MulAdd(four, load_f32(at + 2 * kLanes), s2);
          s3 = hn::MulAdd(four, load_f32(at + 3 * kLanes), s3);
        }
        const VF32 low = hn::Add(hn::ConcatEven(d, s1, s0), hn::ConcatOdd(d, s1, s0));
        const VF32 high = hn::Add(hn::ConcatEven(d, s3, s2), hn::ConcatOdd(d, s3, s2));
        hn::StoreU(hn::Add(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low)), d,
                   to + first * kLanes / 4);
      }
    }
  }
}

#endif

MultiplyPanels float_kernel(DType element) {
  switch (element) {
    case DType::kF32:
      return multiply_panels<float>;
    case DType::kF16:
      return multiply_panels<F16>;
    case DType::kBF16:
      return multiply_panels<BF16>;
    default:
      return nullptr;
  }
}

MultiplyPanels int8_kernel() { return multiply_panels_int8; }

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(float_kernel);
HWY_EXPORT(int8_kernel);

MultiplyPanels float_panel_kernel(DType element) {
  return HWY_DYNAMIC_DISPATCH(float_kernel)(element);
}
MultiplyPanels int8_panel_kernel() { return HWY_DYNAMIC_DISPATCH(int8_kernel)(); }

namespace {

PanelKernel choose_block_kernel(BlockProducts products, const WeightLayout& layout,
                                [[maybe_unused]] uint32_t n_rows) {
#if HWY_ARCH_X86
  const CpuFeatures& cpu = cpu_features();
  const bool int8 = products == BlockProducts::kI8 || products == BlockProducts::kFastest;
  const bool tiles = products == BlockProducts::kBF16 || products == BlockProducts::kFastest;
  if (tiles && cpu.amx && n_rows > kTileRows) {
    return {multiply_blocks_tiles, RowFormat::kBF16Tiles, blocks_tiles_scratch_bytes(layout),
            "AMX tiles"};
  }
  if (int8 && cpu.avx2) {
    const auto with = [&](MultiplyPanels multiply, const char* name) {
      return PanelKernel{multiply, RowFormat::kI8Blocks, expanded_scale_bytes(layout), name};
    };
    if (cpu.avx512_vnni) return with(multiply_blocks_vnni, "int8, VNNI");
    if (cpu.avx_vnni) return with(multiply_blocks_avx_vnni, "int8, AVX-VNNI");
    return with(multiply_blocks_avx2, "int8, AVX2");
  }
#endif
  return {multiply_blocks_f32, RowFormat::kF32, blocks_f32_scratch_bytes(layout)};
}

}  // namespace

PanelKernel choose_panel_kernel(CpuWeightFormat format, const WeightLayout& layout,
                                uint32_t n_rows) {
  if (is_in_blocks(format)) return choose_block_kernel(block_products(format), layout, n_rows);
  switch (format) {
    case CpuWeightFormat::kI8:
#if HWY_ARCH_X86
      if (cpu_features().avx512_vnni)
        return {multiply_panels_vnni, RowFormat::kI8Unsigned, 0, "VNNI"};
#endif
      return {int8_panel_kernel(), RowFormat::kI8Floats};
    case CpuWeightFormat::kF16Tiles:
    case CpuWeightFormat::kBF16Tiles:
#if HWY_ARCH_X86
      if (cpu_features().amx && n_rows > kTileRows) {
        return {
            layout.element == DType::kF16 ? multiply_panels_f16_tiles : multiply_panels_bf16_tiles,
            RowFormat::kBF16Split, tiles_scratch_bytes(layout), "AMX tiles"};
      }
      if (cpu_features().avx512_vnni && n_rows > kTileRows) {
        return {multiply_panels_i16, RowFormat::kI16Blocks, i16_scratch_bytes(layout),
                "16 bits, VNNI"};
      }
#endif
      [[fallthrough]];
    case CpuWeightFormat::kF32:
    case CpuWeightFormat::kF16:
    case CpuWeightFormat::kBF16:
      return {float_panel_kernel(layout.element), RowFormat::kF32};
    case CpuWeightFormat::kEncoder:
    case CpuWeightFormat::kF32Rows:
    case CpuWeightFormat::kF16Rows:
    case CpuWeightFormat::kBF16Rows:
      break;
  }
  return {};
}

}  // namespace vesper
#endif

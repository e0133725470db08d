// Panel products on AVX-512 VNNI, compiled whatever the build's target: nothing here may run before
// cpu_features() allows it.
#include "llm/cpu/matmul/panel_product.h"

#if defined(__x86_64__)
#include <algorithm>
#include <cstring>

#include "llm/cpu/x86_targets.h"

namespace vesper {
namespace {

template <int kRows, int kPanels>
VESPER_VNNI void multiply_tile_vnni(const PanelProduct& product, uint32_t first_row,
                                    uint32_t first_panel) {
  const uint8_t* rows = static_cast<const uint8_t*>(product.rows) + first_row * product.row_stride;
  const uint64_t panel_bytes = product.layout->panel_bytes;
  const std::byte* weights = product.panels + first_panel * panel_bytes;
  const uint32_t padded = product.layout->padded_n_in;
  __m512i sums[kRows][kPanels];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) sums[r][p] = _mm512_setzero_si512();
  }
  for (uint32_t i = 0; i < padded; i += 4) {
    __m512i weight[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      weight[p] = _mm512_loadu_si512(weights + p * panel_bytes + uint64_t{i} * kPanelOutputs);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, rows + r * product.row_stride + i, sizeof(four));
      const __m512i row = _mm512_set1_epi32(four);
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        sums[r][p] = _mm512_dpbusd_epi32(sums[r][p], row, weight[p]);
      }
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p) {
    // The rows carry 128 too much: take 128 times the weights' sum away.
    const __m512i sum_of_weights =
        _mm512_loadu_si512(weights + p * panel_bytes + uint64_t{padded} * kPanelOutputs);
    const __m512i surplus = _mm512_slli_epi32(sum_of_weights, 7);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* to =
          product.sums + (size_t{first_panel + p} * product.n_rows + first_row + r) * kPanelOutputs;
      _mm512_storeu_ps(to, _mm512_cvtepi32_ps(_mm512_sub_epi32(sums[r][p], surplus)));
    }
  }
}

template <int kRows, int kPanels>
VESPER_VNNI void multiply_all_panels_vnni(const PanelProduct& product, uint32_t first_row) {
  uint32_t panel = 0;
  for (; panel + kPanels <= product.n_panels; panel += kPanels) {
    multiply_tile_vnni<kRows, kPanels>(product, first_row, panel);
  }
  for (; panel < product.n_panels; ++panel) {
    multiply_tile_vnni<kRows, 1>(product, first_row, panel);
  }
}

}  // namespace

void multiply_panels_vnni(const PanelProduct& product) {
  const uint32_t n = product.n_rows;
  uint32_t row = 0;
  for (; row + 8 <= n; row += 8) multiply_all_panels_vnni<8, 2>(product, row);
  if (n - row >= 4) {
    multiply_all_panels_vnni<4, 4>(product, row);
    row += 4;
  }
  if (n - row >= 2) {
    multiply_all_panels_vnni<2, 4>(product, row);
    row += 2;
  }
  if (n - row >= 1) multiply_all_panels_vnni<1, 4>(product, row);
}

}  // namespace vesper
#endif

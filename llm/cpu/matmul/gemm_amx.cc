// Micro-kernels on AMX tiles (gemm_amx.h). Run them only if cpu_features() has AMX.
//
// Rows rounded to bf16 or int8, and f32 as three bf16, are multiplied with packed weights directly:
// 32 rows by 32 outputs at a time, while the epilogue processes the previous sums.
//
// Rows in f32 and weights in f16 or bf16 are multiplied with nearly the precision of f32: each f32
// is split into two bf16 (16 of its 24 bits), each f16 weight into two bf16 without loss, and the
// largest three of the four products are added. A third of the speed of tiles is still more than
// that of f32 multiply-adds.
#include "llm/cpu/matmul/gemm_amx.h"

#if defined(__x86_64__)
#include <algorithm>

#include "llm/cpu/matmul/gemm.h"

namespace vesper {
namespace {

constexpr uint32_t kGroupRows = 2 * kTileRows;  // rows multiplied at a time
constexpr uint32_t kPanelsAtOnce = 2;

// Splits a tile of f16 weights into bf16: the upper 16 bits of each as f32, and the rest, which has
// at most four significant bits.
VESPER_AMX inline void split_weights(const std::byte* f16, std::byte* split) {
  alignas(64) static constexpr uint16_t kUpperWords[32] = {
      1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
      33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  const __m512i upper_words = _mm512_load_si512(kUpperWords);
  const __m512i upper_half = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  for (size_t at = 0; at < kTileBytes; at += kTileRowBytes) {
    const __m512i a = _mm512_castps_si512(
        _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(f16 + at))));
    const __m512i b = _mm512_castps_si512(
        _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(f16 + at + 32))));
    const __m512 a_rest =
        _mm512_sub_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(_mm512_and_si512(a, upper_half)));
    const __m512 b_rest =
        _mm512_sub_ps(_mm512_castsi512_ps(b), _mm512_castsi512_ps(_mm512_and_si512(b, upper_half)));
    _mm512_store_si512(split + at, _mm512_permutex2var_epi16(a, upper_words, b));
    _mm512_store_si512(split + kTileBytes + at,
                       _mm512_permutex2var_epi16(_mm512_castps_si512(a_rest), upper_words,
                                                 _mm512_castps_si512(b_rest)));
  }
}

// Rows by up to two panels of packed bf16 at `weights`; the sums are left in gemm.sums.
template <class Terms>
VESPER_AMX void multiply_rows(const Gemm& gemm, uint32_t panel, const std::byte* weights,
                              size_t panel_bytes) {
  const uint32_t n_steps = gemm.layout->padded_n_in / 32;
  const size_t row_tile_bytes = gemm.row_bytes * kTileRows;
  const bool two_panels = gemm.n_panels - panel >= 2;
  for (uint32_t row = 0; row < gemm.n_rows; row += kGroupRows) {
    multiply_tiles<Terms>(gemm.n_rows - row > kTileRows, two_panels,
                          static_cast<const std::byte*>(gemm.rows) + row * gemm.row_bytes,
                          row_tile_bytes, weights, panel_bytes, n_steps,
                          gemm.sums.data + panel * gemm.sums.panel_stride + row * kPanelOutputs,
                          kPanelOutputs, gemm.sums.panel_stride, [](uint32_t) {});
  }
}

// All panels of a task. While 32 x 32 sums are computed in tiles, the epilogue processes the
// previous ones; then the new ones take their place.
template <class Terms>
VESPER_AMX void multiply_and_finish(const Gemm& gemm) {
  const PackedLayout& layout = *gemm.layout;
  const uint32_t n_steps = layout.padded_n_in / (Terms::kInt8 ? 64 : 32);
  constexpr size_t kPanelSums = kGroupRows * kPanelOutputs;
  const size_t row_tile_bytes = gemm.row_bytes * kTileRows;
  _tile_loadconfig(&kTileConfig);
  auto* const sums = reinterpret_cast<float*>(gemm.scratch);  // [2 panels][32][16]
  GemmSums last{};
  for (uint32_t panel = 0; panel < gemm.n_panels; panel += kPanelsAtOnce) {
    const uint32_t n_panels = std::min(kPanelsAtOnce, gemm.n_panels - panel);
    const std::byte* const weights = gemm.panels + panel * layout.panel_bytes;
    for (uint32_t row = 0; row < gemm.n_rows; row += kGroupRows) {
      const GemmSums group{sums,
                           kPanelSums,
                           row,
                           std::min(kGroupRows, gemm.n_rows - row),
                           gemm.sums.first_panel + panel,
                           n_panels};
      const auto finish = [&](uint32_t step) VESPER_AMX {
        const uint32_t from = step * last.n_rows / n_steps, to = (step + 1) * last.n_rows / n_steps;
        if (from < to) gemm.finish(gemm.context, last, from, to);
      };
      multiply_tiles<Terms>(group.n_rows > kTileRows, n_panels == 2,
                            static_cast<const std::byte*>(gemm.rows) + row * gemm.row_bytes,
                            row_tile_bytes, weights, layout.panel_bytes, n_steps, group.data,
                            kPanelOutputs, kPanelSums, finish);
      last = group;
    }
  }
  gemm.finish(gemm.context, last, 0, last.n_rows);
  _tile_release();
}

}  // namespace

VESPER_AMX void gemm_amx_f16(const Gemm& gemm) {
  constexpr size_t kSplitBytes = 2 * kTileBytes;  // a high and a low tile
  const uint32_t n_steps = gemm.layout->padded_n_in / 32;
  const size_t panel_bytes = n_steps * kSplitBytes;
  _tile_loadconfig(&kTileConfig);
  for (uint32_t panel = 0; panel < gemm.n_panels; panel += kPanelsAtOnce) {
    for (uint32_t p = 0; p < std::min(kPanelsAtOnce, gemm.n_panels - panel); ++p) {
      const std::byte* const from = gemm.panels + (panel + p) * gemm.layout->panel_bytes;
      for (uint32_t step = 0; step < n_steps; ++step) {
        split_weights(from + step * kTileBytes,
                      gemm.scratch + p * panel_bytes + step * kSplitBytes);
      }
    }
    multiply_rows<TwoByTwoBF16>(gemm, panel, gemm.scratch, panel_bytes);
  }
  _tile_release();
}

VESPER_AMX void gemm_amx_bf16(const Gemm& gemm) {
  const size_t panel_bytes = gemm.layout->panel_bytes;
  _tile_loadconfig(&kTileConfig);
  for (uint32_t panel = 0; panel < gemm.n_panels; panel += kPanelsAtOnce) {
    multiply_rows<TwoByOneBF16>(gemm, panel, gemm.panels + panel * panel_bytes, panel_bytes);
  }
  _tile_release();
}

void gemm_amx_bf16_rounded(const Gemm& gemm) { multiply_and_finish<OneBF16>(gemm); }
void gemm_amx_three_bf16(const Gemm& gemm) { multiply_and_finish<ThreeByThreeBF16>(gemm); }
void gemm_amx_int8(const Gemm& gemm) { multiply_and_finish<OneInt8>(gemm); }

size_t gemm_amx_f16_scratch_bytes(const PackedLayout& layout) {
  return size_t{2} * kPanelsAtOnce * (layout.padded_n_in / 32) * kTileBytes;
}
size_t gemm_amx_sums_scratch_bytes(const PackedLayout&) {
  return size_t{kPanelsAtOnce} * kGroupRows * kPanelOutputs * sizeof(float);
}

}  // namespace vesper
#endif

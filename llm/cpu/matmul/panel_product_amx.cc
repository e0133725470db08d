// Panel products on AMX tiles of bf16, to nearly the precision of f32: each f32 of a row is split
// into two bf16 (16 bits of its 24), each f16 weight into two bf16 without loss, and of the four
// products the largest three are summed, in f32. A third of the tiles' speed is still more
// than that of f32 multiply-adds.
//
// A row's sums are made in one order, high x high, high x low, low x high for every 32 inputs,
// whatever the number of rows. Nothing here may run before cpu_features() allows it.
#include "llm/cpu/matmul/panel_product.h"

#if defined(__x86_64__)
#include <algorithm>
#include <cstring>

#include "llm/cpu/matmul/tile_config.h"
#include "llm/cpu/x86_targets.h"

namespace vesper {
namespace {

constexpr uint32_t kStepInputs = 32;            // of a tile's row
constexpr size_t kSplitBytes = 2 * kTileBytes;  // a high and a low tile
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

// Two tiles of rows times two panels: tiles 0 to 3 hold the sums, 4 and 5 the rows, 6 and 7 the
// weights. kRowTiles and kPanels say how many of two there are. Steps of `weights` lie
// `step_bytes` apart.
template <bool kSplit, int kRowTiles, int kPanels>
VESPER_AMX void multiply_block(const std::byte* rows, const std::byte* weights, size_t panel_bytes,
                               uint32_t n_steps, float (*sums)[kTileRows * kPanelOutputs]) {
  constexpr size_t kStepBytes = kSplit ? kSplitBytes : kTileBytes;
  const std::byte* second = weights + panel_bytes;
  const std::byte* next_rows = rows + n_steps * kSplitBytes;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
#define VESPER_MULTIPLY()                                \
  _tile_dpbf16ps(0, 4, 6);                               \
  if constexpr (kPanels == 2) _tile_dpbf16ps(1, 4, 7);   \
  if constexpr (kRowTiles == 2) _tile_dpbf16ps(2, 5, 6); \
  if constexpr (kRowTiles == 2 && kPanels == 2) _tile_dpbf16ps(3, 5, 7)
#define VESPER_LOAD_ROWS(offset)                                       \
  _tile_loadd(4, rows + step * kSplitBytes + (offset), kTileRowBytes); \
  if constexpr (kRowTiles == 2)                                        \
  _tile_loadd(5, next_rows + step * kSplitBytes + (offset), kTileRowBytes)
#define VESPER_LOAD_WEIGHTS(offset)                                      \
  _tile_loadd(6, weights + step * kStepBytes + (offset), kTileRowBytes); \
  if constexpr (kPanels == 2) _tile_loadd(7, second + step * kStepBytes + (offset), kTileRowBytes)
  for (uint32_t step = 0; step < n_steps; ++step) {
    VESPER_LOAD_ROWS(0);
    VESPER_LOAD_WEIGHTS(0);
    VESPER_MULTIPLY();
    if constexpr (kSplit) {
      VESPER_LOAD_WEIGHTS(kTileBytes);
      VESPER_MULTIPLY();
      VESPER_LOAD_WEIGHTS(0);
    }
    VESPER_LOAD_ROWS(kTileBytes);
    VESPER_MULTIPLY();
  }
#undef VESPER_MULTIPLY
#undef VESPER_LOAD_ROWS
#undef VESPER_LOAD_WEIGHTS
  _tile_stored(0, sums[0], kTileRowBytes);
  _tile_stored(1, sums[1], kTileRowBytes);
  _tile_stored(2, sums[2], kTileRowBytes);
  _tile_stored(3, sums[3], kTileRowBytes);
}

template <bool kSplit>
VESPER_AMX void multiply(const PanelProduct& product) {
  const uint32_t n_steps = product.layout->padded_n_in / kStepInputs;
  const std::byte* weights = product.panels;
  const size_t panel_bytes = product.layout->panel_bytes;
  const TileConfig config;
  _tile_loadconfig(&config);
  for (uint32_t panel = 0; panel < product.n_panels; panel += kPanelsAtOnce) {
    const bool two_panels = product.n_panels - panel >= 2;
    const std::byte* from = weights + panel * panel_bytes;
    size_t from_panel_bytes = panel_bytes;
    if constexpr (kSplit) {
      from_panel_bytes = n_steps * kSplitBytes;
      for (uint32_t p = 0; p < 1u + two_panels; ++p) {
        for (uint32_t step = 0; step < n_steps; ++step) {
          split_weights(from + p * panel_bytes + step * kTileBytes,
                        product.scratch + p * from_panel_bytes + step * kSplitBytes);
        }
      }
      from = product.scratch;
    }
    for (uint32_t row = 0; row < product.n_rows; row += 2 * kTileRows) {
      const std::byte* rows =
          static_cast<const std::byte*>(product.rows) + row / kTileRows * n_steps * kSplitBytes;
      const bool two_tiles = product.n_rows - row > kTileRows;
      alignas(64) float sums[4][kTileRows * kPanelOutputs];
      if (two_tiles && two_panels) {
        multiply_block<kSplit, 2, 2>(rows, from, from_panel_bytes, n_steps, sums);
      } else if (two_tiles) {
        multiply_block<kSplit, 2, 1>(rows, from, from_panel_bytes, n_steps, sums);
      } else if (two_panels) {
        multiply_block<kSplit, 1, 2>(rows, from, from_panel_bytes, n_steps, sums);
      } else {
        multiply_block<kSplit, 1, 1>(rows, from, from_panel_bytes, n_steps, sums);
      }
      for (uint32_t t = 0; t < 1u + two_tiles; ++t) {
        const uint32_t first = row + t * kTileRows;
        const uint32_t n = std::min(kTileRows, product.n_rows - first);
        for (uint32_t p = 0; p < 1u + two_panels; ++p) {
          std::memcpy(product.sums + (size_t{panel + p} * product.n_rows + first) * kPanelOutputs,
                      sums[2 * t + p], n * sizeof(float) * kPanelOutputs);
        }
      }
    }
  }
  _tile_release();
}

}  // namespace

void multiply_panels_f16_tiles(const PanelProduct& product) { multiply<true>(product); }
void multiply_panels_bf16_tiles(const PanelProduct& product) { multiply<false>(product); }

size_t tiles_scratch_bytes(const WeightLayout& layout) {
  if (layout.element != DType::kF16) return 0;
  return size_t{kPanelsAtOnce} * (layout.padded_n_in / kStepInputs) * kSplitBytes;
}

}  // namespace vesper
#endif

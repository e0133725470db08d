// Products on AMX tiles, shared by gemm_amx.cc and gemm_blocks_amx.cc: two tiles of 16 rows by two
// panels at a time. Only for files compiled for AMX.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/cpu/amx_tile.h"
#include "llm/cpu/x86_targets.h"

namespace vesper {

// A product of f32 numbers as products of bf16 tiles. A row (weight) is the sum of kRowTerms
// (kWeightTerms) bf16, the largest first. kProducts lists the pairs of terms that are multiplied in
// each step of the inner dimension, in order.
struct TermPair {
  int row, weight;
};
struct OneBF16 {
  static constexpr bool kInt8 = false;
  static constexpr int kRowTerms = 1, kWeightTerms = 1;
  static constexpr TermPair kProducts[] = {{0, 0}};
};
struct OneInt8 {
  static constexpr bool kInt8 = true;
  static constexpr int kRowTerms = 1, kWeightTerms = 1;
  static constexpr TermPair kProducts[] = {{0, 0}};
};
struct TwoByOneBF16 {
  static constexpr bool kInt8 = false;
  static constexpr int kRowTerms = 2, kWeightTerms = 1;
  static constexpr TermPair kProducts[] = {{0, 0}, {1, 0}};
};
struct TwoByTwoBF16 {
  static constexpr bool kInt8 = false;
  static constexpr int kRowTerms = 2, kWeightTerms = 2;
  static constexpr TermPair kProducts[] = {{0, 0}, {0, 1}, {1, 0}};
};
// An f32 has 24 bits, three times the 8 of a bf16, and a product is the sum of six. The three
// omitted ones are together at most 2^-25 of it, less than the rounding of one f32 product. (G.
// Henry, P. Tang, A. Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for
// higher-precision computations", ARITH 2019.)
struct ThreeByThreeBF16 {
  static constexpr bool kInt8 = false;
  static constexpr int kRowTerms = 3, kWeightTerms = 3;
  static constexpr TermPair kProducts[] = {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 0}, {0, 2}};
};

// Two tiles of rows by two panels over n_steps of the inner dimension. Tiles 0 to 3 hold the sums,
// 4 and 5 the rows, 6 and 7 the weights. kRowTiles and kPanels are 1 or 2. Rows are
// [n_steps][kRowTerms] tiles each, the second `row_tile_bytes` after the first; weights are
// [n_steps][kWeightTerms] tiles, the second panel `panel_bytes` after the first. Sums have a row
// stride of `stride` and a panel stride of `panel_stride` elements. `between(step)` is called while
// the tiles are busy.
template <class Terms, int kRowTiles, int kPanels, class Between>
VESPER_AMX_INLINE void multiply_tiles(const std::byte* rows, size_t row_tile_bytes,
                                      const std::byte* weights, size_t panel_bytes,
                                      uint32_t n_steps, void* sums, size_t stride,
                                      size_t panel_stride, const Between& between) {
  const std::byte* next_rows = rows + row_tile_bytes;
  const std::byte* second = weights + panel_bytes;
  _tile_zero(0);
  if constexpr (kPanels == 2) _tile_zero(1);
  if constexpr (kRowTiles == 2) _tile_zero(2);
  if constexpr (kRowTiles == 2 && kPanels == 2) _tile_zero(3);
  constexpr int kNoTerm = -1;
  for (uint32_t step = 0; step < n_steps; ++step) {
    TermPair loaded{kNoTerm, kNoTerm};
#pragma GCC unroll 6
    for (const TermPair terms : Terms::kProducts) {
      if (terms.row != loaded.row) {
        const size_t at =
            (size_t{step} * Terms::kRowTerms + static_cast<size_t>(terms.row)) * kTileBytes;
        _tile_loadd(4, rows + at, kTileRowBytes);
        if constexpr (kRowTiles == 2) _tile_loadd(5, next_rows + at, kTileRowBytes);
      }
      if (terms.weight != loaded.weight) {
        const size_t at =
            (size_t{step} * Terms::kWeightTerms + static_cast<size_t>(terms.weight)) * kTileBytes;
        _tile_loadd(6, weights + at, kTileRowBytes);
        if constexpr (kPanels == 2) _tile_loadd(7, second + at, kTileRowBytes);
      }
      loaded = terms;
      if constexpr (Terms::kInt8) {
        _tile_dpbssd(0, 4, 6);
        if constexpr (kPanels == 2) _tile_dpbssd(1, 4, 7);
        if constexpr (kRowTiles == 2) _tile_dpbssd(2, 5, 6);
        if constexpr (kRowTiles == 2 && kPanels == 2) _tile_dpbssd(3, 5, 7);
      } else {
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (kPanels == 2) _tile_dpbf16ps(1, 4, 7);
        if constexpr (kRowTiles == 2) _tile_dpbf16ps(2, 5, 6);
        if constexpr (kRowTiles == 2 && kPanels == 2) _tile_dpbf16ps(3, 5, 7);
      }
    }
    between(step);
  }
  auto* const to = static_cast<float*>(sums);  // or int32, which has the same size
  const size_t stride_bytes = stride * sizeof(float);
  _tile_stored(0, to, stride_bytes);
  if constexpr (kPanels == 2) _tile_stored(1, to + panel_stride, stride_bytes);
  if constexpr (kRowTiles == 2) {
    _tile_stored(2, to + kTileRows * stride, stride_bytes);
    if constexpr (kPanels == 2) {
      _tile_stored(3, to + panel_stride + kTileRows * stride, stride_bytes);
    }
  }
}

// The same for one or two tiles of rows and one or two panels.
template <class Terms, class Between>
VESPER_AMX_INLINE void multiply_tiles(bool two_row_tiles, bool two_panels, const std::byte* rows,
                                      size_t row_tile_bytes, const std::byte* weights,
                                      size_t panel_bytes, uint32_t n_steps, void* sums,
                                      size_t stride, size_t panel_stride, const Between& between) {
  const auto run = [&]<int kRowTiles, int kPanels>() VESPER_AMX {
    multiply_tiles<Terms, kRowTiles, kPanels>(rows, row_tile_bytes, weights, panel_bytes, n_steps,
                                              sums, stride, panel_stride, between);
  };
  if (two_row_tiles && two_panels) {
    run.template operator()<2, 2>();
  } else if (two_row_tiles) {
    run.template operator()<2, 1>();
  } else if (two_panels) {
    run.template operator()<1, 2>();
  } else {
    run.template operator()<1, 1>();
  }
}

}  // namespace vesper

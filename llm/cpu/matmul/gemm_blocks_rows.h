// Shared by the kernels for rows of RowLayout::kI8Blocks.
//
// A kernel is a struct with kMostRows (4, 8 or 12), the rows whose sums fit its registers, and
// rows<kBits, kHalves, kRows>(PanelRows), which multiplies kRows rows with one panel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "llm/cpu/matmul/gemm.h"

namespace vesper {

// Prefetching distance of weights, across panels: hardware prefetching stops at the end of a page.
inline constexpr size_t kPrefetchBytes = 8192;
// Up to this number of rows a product is limited by memory.
inline constexpr int kMemoryBoundRows = 4;

// One panel and the first row to multiply with it.
struct PanelRows {
  const PackedLayout* layout;
  const std::byte* panel;
  size_t bytes_to_end;  // from the panel to the end of the task: the limit of prefetching
  const float* scales;
  const float* minimums;  // may be null
  const std::byte* first_row;
  size_t row_bytes;
  const float* residual;  // of the first row; may be null; has the layout of `out`
  float* out;             // of the first row
  size_t out_stride;      // between rows
};

inline float load_row_float(const std::byte* from) {
  float value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline int32_t load_row_int(const std::byte* from) {
  int32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class Kernel, int kBits, bool kHalves>
void multiply_block_rows(const Gemm& gemm) {
  const PackedLayout& layout = *gemm.layout;
  auto* const scales = reinterpret_cast<float*>(gemm.scratch);
  float* const minimums = scales + expanded_scale_bytes(layout) / sizeof(float) / 2;
  PanelRows part{};
  part.layout = &layout;
  part.scales = scales;
  part.row_bytes = Int8BlockRow(layout).bytes;
  part.out_stride = gemm.out != nullptr ? gemm.out_stride : kPanelOutputs;
  for (uint32_t p = 0; p < gemm.n_panels; ++p) {
    part.panel = gemm.panels + p * layout.panel_bytes;
    part.bytes_to_end = static_cast<size_t>(gemm.end_of_task - part.panel);
    part.minimums = expand_scales(layout, part.panel, false, scales, minimums) ? minimums : nullptr;
    float* const out = gemm.out != nullptr ? gemm.out + p * kPanelOutputs
                                           : gemm.sums.data + p * gemm.sums.panel_stride;
    const float* const residual =
        gemm.residual != nullptr ? gemm.residual + p * kPanelOutputs : nullptr;
    uint32_t row = 0;
    const auto take = [&]<int kRows>() {
      part.first_row = static_cast<const std::byte*>(gemm.rows) + row * part.row_bytes;
      part.residual = residual == nullptr ? nullptr : residual + row * part.out_stride;
      part.out = out + row * part.out_stride;
      Kernel::template rows<kBits, kHalves, kRows>(part);
      row += kRows;
    };
    while (row + Kernel::kMostRows <= gemm.n_rows) take.template operator()<Kernel::kMostRows>();
    if constexpr (Kernel::kMostRows > 8) {
      if (row + 8 <= gemm.n_rows) take.template operator()<8>();
    }
    if constexpr (Kernel::kMostRows > 4) {
      if (row + 4 <= gemm.n_rows) take.template operator()<4>();
    }
    if (row + 2 <= gemm.n_rows) take.template operator()<2>();
    if (row + 1 <= gemm.n_rows) take.template operator()<1>();
  }
}

using MultiplyBlocks = void (*)(const Gemm&);
template <class Kernel, bool kHalves>
MultiplyBlocks block_rows_kernel(uint32_t bits) {
  switch (bits) {
    case 2:
      return multiply_block_rows<Kernel, 2, kHalves>;
    case 3:
      return multiply_block_rows<Kernel, 3, kHalves>;
    case 4:
      return multiply_block_rows<Kernel, 4, kHalves>;
    case 5:
      return multiply_block_rows<Kernel, 5, kHalves>;
    case 6:
      return multiply_block_rows<Kernel, 6, kHalves>;
    default:
      return multiply_block_rows<Kernel, 8, kHalves>;
  }
}

// Calls the kernel's function for the product's format.
template <class Kernel>
void multiply_block_rows(const Gemm& gemm) {
  const BlockFormat& format = gemm.layout->format.blocks;
  const MultiplyBlocks multiply = format.group == 16
                                      ? block_rows_kernel<Kernel, true>(format.bits)
                                      : block_rows_kernel<Kernel, false>(format.bits);
  multiply(gemm);
}

}  // namespace vesper

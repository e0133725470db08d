// What the kernels for rows of RowFormat::kI8Blocks share, whatever their instructions: how they
// reach a few rows, and how rows and panels of a product are handed to them.
//
// A kernel is a struct with kMostRows (4, 8 or 12), the rows that its registers hold the sums of,
// and rows<kBits, kHalves, kRows>(PanelRows), which multiplies so many rows with one panel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "llm/cpu/matmul/block_product.h"

namespace vesper {

// So far ahead weights are asked for, across panels: the processor's own prefetching stops at the
// end of a page.
inline constexpr size_t kPrefetchBytes = 8192;
// Up to so many rows memory is what a product waits for.
inline constexpr int kFewRows = 4;

// One panel and the first of the rows that it is to meet.
struct PanelRows {
  const WeightLayout* layout;
  const std::byte* panel;
  size_t bytes_to_end;  // from the panel to the end of the task: worth asking the memory for
  const float* scales;
  const float* minimums;  // null without
  const std::byte* first_row;
  size_t row_bytes;
  const float* residual;  // of the first row, added where there is one; lies as `out` does
  float* out;             // of the first row
  size_t out_stride;      // from row to row
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
void multiply_block_rows(const PanelProduct& product) {
  const WeightLayout& layout = *product.layout;
  auto* const scales = reinterpret_cast<float*>(product.scratch);
  float* const minimums = scales + expanded_scale_bytes(layout) / sizeof(float) / 2;
  PanelRows part{};
  part.layout = &layout;
  part.scales = scales;
  part.row_bytes = Int8BlockRow(layout).bytes;
  part.out_stride = product.out != nullptr ? product.out_stride : kPanelOutputs;
  for (uint32_t p = 0; p < product.n_panels; ++p) {
    part.panel = product.panels + p * layout.panel_bytes;
    part.bytes_to_end = static_cast<size_t>(product.end_of_task - part.panel);
    part.minimums = expand_scales(layout, part.panel, false, scales, minimums) ? minimums : nullptr;
    float* const out = product.out != nullptr
                           ? product.out + p * kPanelOutputs
                           : product.sums + size_t{p} * product.n_rows * kPanelOutputs;
    const float* const residual =
        product.residual != nullptr ? product.residual + p * kPanelOutputs : nullptr;
    uint32_t row = 0;
    const auto take = [&]<int kRows>() {
      part.first_row = static_cast<const std::byte*>(product.rows) + row * part.row_bytes;
      part.residual = residual == nullptr ? nullptr : residual + row * part.out_stride;
      part.out = out + row * part.out_stride;
      Kernel::template rows<kBits, kHalves, kRows>(part);
      row += kRows;
    };
    while (row + Kernel::kMostRows <= product.n_rows) take.template operator()<Kernel::kMostRows>();
    if constexpr (Kernel::kMostRows > 8) {
      if (row + 8 <= product.n_rows) take.template operator()<8>();
    }
    if constexpr (Kernel::kMostRows > 4) {
      if (row + 4 <= product.n_rows) take.template operator()<4>();
    }
    if (row + 2 <= product.n_rows) take.template operator()<2>();
    if (row + 1 <= product.n_rows) take.template operator()<1>();
  }
}

template <class Kernel, bool kHalves>
MultiplyPanels block_rows_kernel(uint32_t bits) {
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

// Multiplies by the kernel's function for the product's format.
template <class Kernel>
void multiply_block_rows(const PanelProduct& product) {
  const BlockFormat& format = product.layout->blocks;
  const MultiplyPanels multiply = format.group == 16
                                      ? block_rows_kernel<Kernel, true>(format.bits)
                                      : block_rows_kernel<Kernel, false>(format.bits);
  multiply(product);
}

}  // namespace vesper

// The inner part of a matrix product: a block of rows times a few panels of a packed weight
// (weight_layout.h), sums only. matmul.cc feeds it and finishes its sums.
//
// Whatever the number of rows and panels, the sum of one row and one output is made in one order:
// a row's result does not depend on the rows beside it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/cpu/weight_layout.h"

namespace vesper {

// What a product reads its rows as: the driver converts a command's input to it where it is not
// that already.
enum class RowFormat {
  kF32,         // f32 [n_rows], row_stride floats apart, n_in each
  kI8Floats,    // whole numbers in -127..127 as f32 [n_rows, padded_n_in], zeros behind n_in
  kI8Unsigned,  // the same plus 128 as u8 [n_rows, padded_n_in]
  kBF16Split,   // bf16 [2, n_rows, padded_n_in]: rounded values, then what rounding left, rounded
};

struct PanelProduct {
  const void* rows = nullptr;
  size_t row_stride = 0;  // elements
  uint32_t n_rows = 0;    // at most kMaxRowsPerProduct
  const std::byte* panels = nullptr;
  uint32_t n_panels = 0;  // at most kMaxPanelsPerProduct
  const WeightLayout* layout = nullptr;
  float* sums = nullptr;  // [n_panels, n_rows, 16] (w)
};
using MultiplyPanels = void (*)(const PanelProduct&);

inline constexpr uint32_t kMaxRowsPerProduct = 96;
inline constexpr uint32_t kMaxPanelsPerProduct = 4;

struct PanelKernel {
  MultiplyPanels multiply = nullptr;
  RowFormat rows = RowFormat::kF32;
};

// The fastest kernel for a format on this CPU. `multiply` is null if there is none.
PanelKernel choose_panel_kernel(CpuWeightFormat format);

// Portable kernels, for the instruction set that Highway has chosen.
MultiplyPanels float_panel_kernel(DType element);  // kF32, kF16 or kBF16
MultiplyPanels int8_panel_kernel();
// Kernels on instructions that not every CPU has: ask cpu_features() first.
void multiply_panels_vnni(const PanelProduct& product);
void multiply_panels_f16_tiles(const PanelProduct& product);
void multiply_panels_bf16_tiles(const PanelProduct& product);

}  // namespace vesper

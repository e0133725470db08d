// The inner part of a matrix product: a block of rows times a few panels of a packed weight
// (weight_layout.h), sums only. matmul.cc feeds it and finishes its sums.
//
// Whatever the number of rows and panels, a kernel makes the sum of one row and one output in one
// order: a row's result does not depend on the rows beside it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/cpu/matmul/weight_layout.h"

namespace vesper {

// What a product reads its rows as: the driver converts a command's input to it where it is not
// that already.
enum class RowFormat {
  kF32,         // f32 [n_rows], row_stride floats apart, n_in each
  kI8Floats,    // whole numbers in -127..127 as f32 [n_rows, padded_n_in], zeros behind n_in
  kI8Unsigned,  // the same plus 128 as u8 [n_rows, padded_n_in]
  // bf16 [ceil(n_rows / 16), padded_n_in / 32, 2, 16, 32]: tiles of 16 rows by 32 inputs, of the
  // rounded numbers and of what rounding left of them, rounded; anything in rows from n_rows on.
  kBF16Split,
  kI8Blocks,   // int8 with a scale for every 32 (Int8BlockRow of block_product.h)
  kI16Blocks,  // i16 with a scale for every 64 (I16Row of i16_rows.h)
  kBF16Tiles,  // bf16 [ceil(n_rows / 16), n_in / 32, 16, 32]: rounded, in tiles as above
};

// Rows of an AMX tile. Up to so many rows, multiply-adds in f32 are as fast as tiles or 16-bit
// products, or faster: a step then reads its weights no slower than memory gives them.
inline constexpr uint32_t kTileRows = 16;

struct PanelProduct {
  const void* rows = nullptr;
  size_t row_stride = 0;  // elements
  uint32_t n_rows = 0;    // at most kMaxRowsPerProduct
  const std::byte* panels = nullptr;
  uint32_t n_panels = 0;  // at most kMaxPanelsPerProduct
  // Up to here the same thread goes on to multiply: worth asking the memory for.
  const std::byte* end_of_task = nullptr;
  const WeightLayout* layout = nullptr;
  float* sums = nullptr;  // [n_panels, n_rows, 16] (w)
  // Where the sums are the result, rows `out_stride` floats apart: then they are written here. Only
  // for kernels of kBF16Tiles, kI16Blocks and kI8Blocks, of which the last add a residual that lies
  // likewise, and for float_panel_kernel.
  float* out = nullptr;
  const float* residual = nullptr;
  size_t out_stride = 0;
  // Of those, the one that each row is; null: in order. Only for kernels of kI16Blocks and
  // float_panel_kernel.
  const uint32_t* out_rows = nullptr;
  std::byte* scratch = nullptr;  // aligned to 64 bytes, as much as the kernel asks for
};
using MultiplyPanels = void (*)(const PanelProduct&);

// Where the 16 sums of a row and a panel go: among the others, or as the result.
inline float* sums_of(const PanelProduct& product, uint32_t row, uint32_t panel) {
  if (product.out != nullptr) {
    const size_t out_row = product.out_rows == nullptr ? row : product.out_rows[row];
    return product.out + out_row * product.out_stride + size_t{panel} * kPanelOutputs;
  }
  return product.sums + (size_t{panel} * product.n_rows + row) * kPanelOutputs;
}

inline constexpr uint32_t kMaxRowsPerProduct = 256;
inline constexpr uint32_t kMaxPanelsPerProduct = 4;

struct PanelKernel {
  MultiplyPanels multiply = nullptr;
  RowFormat rows = RowFormat::kF32;
  size_t scratch_bytes = 0;      // that multiply wants
  const char* name = "vectors";  // for people
};

// The fastest kernel for a weight in panels and a command of `n_rows` rows on this CPU.
PanelKernel choose_panel_kernel(CpuWeightFormat format, const WeightLayout& layout,
                                uint32_t n_rows);

// Portable kernels, for the instruction set that Highway has chosen.
MultiplyPanels float_panel_kernel(DType element);  // kF32, kF16 or kBF16
MultiplyPanels int8_panel_kernel();
// Kernels on instructions that not every CPU has: ask cpu_features() first.
void multiply_panels_vnni(const PanelProduct& product);
void multiply_panels_f16_tiles(const PanelProduct& product);
void multiply_panels_bf16_tiles(const PanelProduct& product);
size_t tiles_scratch_bytes(const WeightLayout& layout);
void multiply_panels_i16(const PanelProduct& product);
size_t i16_scratch_bytes(const WeightLayout& layout);

}  // namespace vesper

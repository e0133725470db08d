// The micro-kernels of matrix products, and the registry that chooses among them.
//
// A kernel multiplies a block of converted input rows (input_rows.h) with a few panels of a packed
// weight (packed_weight.h). matmul.cc cuts a command into tasks, converts the rows, calls the
// kernel and applies the epilogue. A new kernel is one function and one row of the registry
// (gemm_registry.cc).
//
// A kernel adds the products of a row and an output in a fixed order. So a row's result does not
// depend on the number of rows and panels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llm/cpu/matmul/input_rows.h"
#include "llm/cpu/matmul/packed_weight.h"

namespace vesper {

// The sums of a few rows and panels, from a kernel to the epilogue.
struct GemmSums {
  float* data = nullptr;                   // or int32: [n_panels, panel_stride / 16, 16]
  size_t panel_stride = 0;                 // between panels, in elements
  uint32_t first_row = 0, n_rows = 0;      // of the block
  uint32_t first_panel = 0, n_panels = 0;  // of the weight
};

struct Gemm {
  const PackedLayout* layout = nullptr;
  const void* rows = nullptr;
  size_t row_bytes = 0;  // between rows, or 1/16 of the distance between tiles
  uint32_t n_rows = 0;   // at most kMaxGemmRows
  const std::byte* panels = nullptr;
  uint32_t n_panels = 0;  // at most kMaxGemmPanels, or all of a task
  // End of the weights that the thread multiplies with: the limit of prefetching.
  const std::byte* end_of_task = nullptr;
  std::byte* scratch = nullptr;  // aligned to 64 bytes, scratch_bytes()

  GemmSums sums;

  // If nothing is done to the sums, they are stored as the result, rows `out_stride` floats apart.
  // `residual`, if given, is added; it has the layout of `out`. See GemmKernel::kStoresResult.
  float* out = nullptr;
  const float* residual = nullptr;
  size_t out_stride = 0;
  const uint32_t* out_rows = nullptr;  // row of `out` for each row; null: in order

  // Applies the epilogue to rows [from, to) of sums. Only for kernels with kFinishesSums.
  void (*finish)(const void* context, const GemmSums& sums, uint32_t from, uint32_t to) = nullptr;
  const void* context = nullptr;
};

// Destination of the 16 sums of a row and a panel: the sums or the result.
inline float* sums_at(const Gemm& gemm, uint32_t row, uint32_t panel) {
  if (gemm.out != nullptr) {
    const size_t out_row = gemm.out_rows == nullptr ? row : gemm.out_rows[row];
    return gemm.out + out_row * gemm.out_stride + size_t{panel} * kPanelOutputs;
  }
  return gemm.sums.data + panel * gemm.sums.panel_stride + size_t{row} * kPanelOutputs;
}

inline constexpr uint32_t kMaxGemmRows = 256;
inline constexpr uint32_t kMaxGemmPanels = 4;

struct GemmKernel {
  void (*multiply)(const Gemm&) = nullptr;
  RowLayout rows = RowLayout::kF32;
  size_t (*scratch_bytes)(const PackedLayout&) = nullptr;  // of multiply; null: none
  const char* name = "vectors";                            // for people
  // Rows per call. A kernel that reads packed weights directly takes as many as its registers hold,
  // so that the epilogue finds the sums in the first-level cache. A kernel that unpacks a panel
  // takes all rows.
  uint32_t rows_at_once = kMaxGemmRows;
  uint32_t flags = 0;

  enum : uint32_t {
    kIntegerSums = 1,   // int32, to be multiplied by the scales of row and output
    kFinishesSums = 2,  // takes all panels of a task, and calls `finish` during the multiplication
    kPolynomialGelu = 4,  // of encoders: see gelu_by_polynomial
    // May store the result: in order, any rows (out_rows), with a residual.
    kStoresResult = 8,
    kStoresAnyRows = 16,
    kAddsResidual = 32,
  };
  bool has(uint32_t flag) const { return (flags & flag) != 0; }
};

// The fastest kernel on this CPU for a weight and a command of `n_rows` rows. Throws
// Error(kInternal) if there is none.
const GemmKernel& choose_gemm_kernel(const PackedFormat& format, uint32_t n_rows);

// Portable kernels for the instruction set that Highway selects: gemm_vectors.cc.
void gemm_f32(const Gemm& gemm);
void gemm_f16(const Gemm& gemm);
void gemm_bf16(const Gemm& gemm);

// gemm_dot.cc. bf16 pairs need AVX512-BF16; int8 quads with unsigned rows need AVX-512 VNNI or
// AVX-VNNI.
void gemm_bf16_pairs(const Gemm& gemm);
void gemm_int8_quads(const Gemm& gemm);
void gemm_int8(const Gemm& gemm);

// gemm_i16.cc: AVX-512 VNNI.
void gemm_i16(const Gemm& gemm);
size_t gemm_i16_scratch_bytes(const PackedLayout& layout);

// gemm_amx.cc.
void gemm_amx_f16(const Gemm& gemm);   // rows of two bf16, weights split into two
void gemm_amx_bf16(const Gemm& gemm);  // rows of two bf16
void gemm_amx_bf16_rounded(const Gemm& gemm);
void gemm_amx_three_bf16(const Gemm& gemm);
void gemm_amx_int8(const Gemm& gemm);
size_t gemm_amx_f16_scratch_bytes(const PackedLayout& layout);
size_t gemm_amx_sums_scratch_bytes(const PackedLayout& layout);

// Quantized blocks: packed_blocks.h. The scales of a panel are expanded to f32 first, so kernels
// have only scales for 16 or 32 inputs.

// Scales and minimums of a panel as f32 [n_in / expanded_group][16]. `minimums` is written if the
// format has minimums, or with `zero_as_minimum`: -zero * scale. Returns whether it was written.
bool expand_scales(const PackedLayout& layout, const std::byte* panel, bool zero_as_minimum,
                   float* scales, float* minimums);
void gemm_blocks_f32(const Gemm& gemm);
size_t gemm_blocks_f32_scratch_bytes(const PackedLayout& layout);
void gemm_blocks_vnni(const Gemm& gemm);  // all three give the same bits
void gemm_blocks_avx_vnni(const Gemm& gemm);
void gemm_blocks_avx2(const Gemm& gemm);
size_t expanded_scale_bytes(const PackedLayout& layout);
void gemm_blocks_amx(const Gemm& gemm);
size_t gemm_blocks_amx_scratch_bytes(const PackedLayout& layout);

}  // namespace vesper

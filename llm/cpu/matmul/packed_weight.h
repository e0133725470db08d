// Packed weights: how the CPU device stores the matrices that it multiplies with or gathers rows
// from. One copy of a weight serves embed, matrix-vector and matrix-matrix products.
//
// 16 outputs of the product (rows of the matrix) make a panel, the micro-panel of BLIS. Inside a
// panel the elements are ordered by input, in the groups that one instruction takes:
//
//   f32, f16, bf16   [n_panels][padded_n_in / 2][16][2]
//   three bf16       [n_panels][padded_n_in / 32][3][16][16][2]: their sum is the f32, exactly
//   int8             [n_panels]{[padded_n_in / 4][16][4], then i32 [16]: the sum of each output's
//                    weights}, with an f32 scale per output beside it
//
// Inputs are padded with zeros to a multiple of 32 (int8: 64), outputs to a multiple of 16: an AMX
// tile of weights is 1 KiB of consecutive memory. Quantized blocks keep the file's codes and scales
// (packed_blocks.h). A matrix that is only gathered from is stored row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "llm/cpu/thread_pool.h"
#include "llm/dtype/quantized_row.h"
#include "llm/table/device.h"

namespace vesper {

// The least multiple of `to` that is not below n.
template <class T>
constexpr T round_up(T n, std::type_identity_t<T> to) {
  return (n + to - 1) / to * to;
}

enum class Storage : uint32_t { kF32, kF16, kBF16, kThreeBF16, kI8, kBlocks };

// What a product converts its input rows to before it multiplies.
enum class InputFormat : uint32_t {
  kF32 = 0,   // f32: as exact as f32 sums are
  kBF16 = 1,  // bf16, where the CPU multiplies that; else f32
  kI8 = 2,    // int8, with a scale per row; for quantized blocks with a scale per 32 inputs
  // The fastest that keeps about the precision of the weights. Up to kFewRows rows: f32, for
  // quantized blocks int8. More rows: 16-bit products; for quantized blocks bf16 on AMX, or int8.
  kFastest = 3,
};

// A weight's storage and how it is multiplied: what a command carries as `weight_format`.
struct PackedFormat {
  Storage storage = Storage::kF32;
  InputFormat inputs = InputFormat::kF32;
  bool row_major = false;  // for embed only
  BlockFormat blocks{};    // of Storage::kBlocks

  uint32_t word() const;
  // Nothing if the word is not one of these.
  static std::optional<PackedFormat> from_word(uint32_t word);
};

inline constexpr uint32_t kPanelOutputs = 16;

struct PackedLayout {
  PackedFormat format;
  uint32_t n_out, n_in;
  uint32_t padded_n_in;
  uint32_t panel_outputs;  // kPanelOutputs, or 1 where rows lie one after the other
  uint32_t n_panels;
  uint64_t panel_bytes;
  uint32_t sub_scales_offset, codes_offset;  // within a panel of quantized blocks

  uint64_t bytes() const { return n_panels * panel_bytes; }
  bool is_quantized() const { return format.storage == Storage::kBlocks; }
  // Whether an f32 scale per output stands beside the weight.
  bool has_row_scales() const { return format.storage == Storage::kI8; }
};

PackedLayout packed_layout(const PackedFormat& format, uint32_t n_out, uint32_t n_in);

// The format for a matrix of these elements, by its use and the choice of products. `compute` is
// resolved for kManyRows. Other matrices that are quantized in the file stay so.
PackedFormat choose_packed_format(const MatrixSource& source, WeightUse use, Compute compute);

// Throws Error(kModel) naming the tensor if its elements cannot be read as numbers, or its rows are
// not whole blocks.
void require_readable(const MatrixSource& source);

// Packs the rows of `source` into `packed` (zeroed, layout.bytes()). For int8 also writes `scale`
// [n_out]: that of the file, or max |w| / 127 of a row that was not int8. Uses all threads of the
// pool. Throws as require_readable.
void pack_weight(const MatrixSource& source, const PackedLayout& layout, std::byte* packed,
                 float* scale, ThreadPool& pool);

}  // namespace vesper

// Packed weights: the CPU device's storage of matrices for products and for gathering rows. One
// copy of a weight serves embed, matrix-vector and matrix-matrix products.
//
// A panel is 16 outputs of the product (rows of the matrix), the micro-panel of BLIS. Its elements
// are ordered by input, in the groups that one instruction takes:
//
//   f32, f16, bf16   [n_panels][padded_n_in / 2][16][2]
//   three bf16       [n_panels][padded_n_in / 32][3][16][16][2]: their sum is exactly the f32
//   int8             [n_panels]{[padded_n_in / 4][16][4], then i32 [16]: the sum of each output's
//                    weights}, with an f32 scale per output beside it
//
// Inputs are padded with zeros to a multiple of 32 (int8: 64), outputs to a multiple of 16, so an
// AMX tile of weights is 1 KiB of consecutive memory. Quantized blocks keep the file's codes and
// scales (packed_blocks.h). A matrix that is only gathered from is row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "llm/cpu/thread_pool.h"
#include "llm/dtype/quantized_row.h"
#include "llm/table/device.h"

namespace vesper {

// The smallest multiple of `to` that is at least n.
template <class T>
constexpr T round_up(T n, std::type_identity_t<T> to) {
  return (n + to - 1) / to * to;
}

enum class Storage : uint32_t { kF32, kF16, kBF16, kThreeBF16, kI8, kBlocks };

// The format to which a product converts its input rows.
enum class InputFormat : uint32_t {
  kF32 = 0,   // f32
  kBF16 = 1,  // bf16 if the CPU multiplies it, otherwise f32
  kI8 = 2,    // int8 with a scale per row; for quantized blocks a scale per 32 inputs
  // The fastest format with about the precision of the weights. Up to kFewRows rows: f32, for
  // quantized blocks int8. More rows: 16-bit products; for quantized blocks bf16 on AMX, otherwise
  // int8.
  kFastest = 3,
};

// A weight's storage and its products; the `weight_format` of a command.
struct PackedFormat {
  Storage storage = Storage::kF32;
  InputFormat inputs = InputFormat::kF32;
  bool row_major = false;  // for embed only
  BlockFormat blocks{};    // of Storage::kBlocks

  uint32_t word() const;
  // Empty if the word is not a packed format.
  static std::optional<PackedFormat> from_word(uint32_t word);
};

inline constexpr uint32_t kPanelOutputs = 16;

struct PackedLayout {
  PackedFormat format;
  uint32_t n_out, n_in;
  uint32_t padded_n_in;
  uint32_t panel_outputs;  // kPanelOutputs, or 1 for row-major
  uint32_t n_panels;
  uint64_t panel_bytes;
  uint32_t sub_scales_offset, codes_offset;  // in a panel of quantized blocks

  uint64_t bytes() const { return n_panels * panel_bytes; }
  bool is_quantized() const { return format.storage == Storage::kBlocks; }
  // Whether there is an f32 scale per output.
  bool has_row_scales() const { return format.storage == Storage::kI8; }
};

PackedLayout packed_layout(const PackedFormat& format, uint32_t n_out, uint32_t n_in);

// The format of a matrix for its elements, use and Compute, which is resolved for kManyRows.
// Quantized matrices stay quantized for other uses.
PackedFormat choose_packed_format(const MatrixSource& source, WeightUse use, Compute compute);

// Packs the rows of `source` into `packed` (zeroed, layout.bytes()). For int8 also writes `scale`
// [n_out]: the file's, or max |w| / 127 of a row that was not int8. Uses all threads of the
// pool. Throws like check_matrix.
void pack_weight(const MatrixSource& source, const PackedLayout& layout, std::byte* packed,
                 float* scale, ThreadPool& pool);

}  // namespace vesper

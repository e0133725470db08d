// How the CPU device lays out the matrices of decoders and language models: one copy of a weight
// that serves row gather (embed), matrix-vector and matrix-matrix products alike.
//
// 16 rows of the matrix (outputs of the product) make a panel. Inside a panel the elements go by
// input, in pairs, so that one pass over consecutive memory feeds 16 outputs at once:
//
//   f32, f16, bf16   [n_panels][padded_n_in / 2][16][2]
//   int8             [n_panels]{[padded_n_in / 4][16][4], then i32 [16]: the sum of each output's
//                    weights}, with a f32 scale per output beside it
//
// Inputs are padded with zeros to a multiple of 32 (int8: 64), outputs to a multiple of 16: one AMX
// tile of weights is 1 KiB of consecutive memory. Quantized matrices stay as they are, in panels of
// their own kind (block_layout.h).
#pragma once

#include <cstddef>
#include <cstdint>
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

class PackedMatrix;

// The CPU device's names for its storage: what `weight_format` holds. The first four are laid out
// as above and keep the numbers of DType.
enum class CpuWeightFormat : uint32_t {
  kF32 = kDTypeF32,
  kF16 = kDTypeF16,
  kBF16 = kDTypeBF16,
  kI8 = kDTypeI8,
  kF16Tiles = 16,   // laid out as kF16, where many rows may be multiplied by bf16 tiles
  kBF16Tiles = 17,  // laid out as kBF16, likewise
  kEncoder = 32,    // a PackedMatrix
  // Row after row, for `embed` alone: a row lies in as few lines of memory as it fills.
  kF32Rows = 33,
  kF16Rows = 34,
  kBF16Rows = 35,
  // From 2^31 on: quantized blocks (block_layout.h).
};

inline constexpr uint32_t kPanelOutputs = 16;

struct WeightLayout {
  DType element;       // kF32, kF16, kBF16 or kI8; no matter where `blocks` has bits
  BlockFormat blocks;  // of a quantized matrix, else of 0 bits
  uint32_t n_out, n_in;
  uint32_t padded_n_in;
  uint32_t panel_outputs;  // kPanelOutputs, or 1 where rows lie one after the other
  uint32_t n_panels;
  uint64_t panel_bytes;
  uint32_t parts_offset, codes_offset;  // within a panel of blocks

  uint64_t bytes() const { return n_panels * panel_bytes; }
  // Whether a f32 scale a row stands beside it.
  bool has_row_scales() const { return blocks.bits == 0 && element == DType::kI8; }
};

// Whether the format is laid out as above.
bool is_in_panels(CpuWeightFormat format);
// Whether it is one of those that lie row after row.
bool is_in_rows(CpuWeightFormat format);
// Throws Error(kInternal) if it is neither in panels nor in rows.
WeightLayout weight_layout(CpuWeightFormat format, uint32_t n_out, uint32_t n_in);

// The format that suits a matrix of these files' elements, its use, which is not kManyRows, and
// this choice of products: what is quantized in the file stays so.
CpuWeightFormat choose_weight_format(const MatrixSource& source, WeightUse use, Compute compute);

// Throws Error(kModel) naming the tensor whose elements cannot be read as numbers, or whose rows
// are no whole blocks, if there is one.
void require_readable(const MatrixSource& source);

// Packs the rows of `source` into `packed` (zeroed, layout.bytes()); for int8 also writes `scale`
// [n_out], where each row that was no int8 gets max |w| / 127. Uses all threads of the pool.
// Throws as require_readable.
void pack_weight(const MatrixSource& source, const WeightLayout& layout, std::byte* packed,
                 float* scale, ThreadPool& pool);

// One row of a source as f32 [n_in]: of the matrix that lies `row` rows down all parts together.
// With `convolution` the taps come outermost. `scratch` has n_in floats.
void read_source_row(const MatrixSource& source, uint32_t row, uint32_t n_in, float* scratch,
                     float* out);

}  // namespace vesper

// Measured choices of a Vulkan device: how kernels divide their work. One row per kind of device; a
// new kind of device is a new row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vesper {

// Tile of matmul_cooperative: of a workgroup, the columns in shared memory, and of a subgroup. A
// processor runs up to `at_once` workgroups. A block of columns then takes latency_ns, and busy_ns
// for each of them.
struct MatmulTile {
  uint32_t rows, outs, depth, subgroup_rows, subgroup_outs;
  uint32_t at_once, latency_ns, busy_ns;
  constexpr uint32_t subgroups() const { return rows / subgroup_rows * (outs / subgroup_outs); }
};
inline constexpr size_t kMatmulTiles = 12, kMatrixTiles = 11;

// Tiles of attention_cooperative: subgroups per workgroup, row matrices per subgroup, keys per
// step.
struct AttentionTile {
  uint32_t subgroups, down, keys;
  uint32_t buffers;  // of keys and values in shared memory, if they fit: 1 or 2
};

// Shape of matmul_int8: sums of a subgroup, subgroups per workgroup, subgroups that share a sum
// (with rows of two blocks per lane or more, and fewer than 16,384 outputs), and how often a
// workgroup does this with the rows that it has quantized.
struct Int8Shape {
  uint32_t outs, subgroups, split, turns;
};

// Of a workgroup of paged_attention: heads that share keys, at most, rows of keys that a lane loads
// at once, and threads, unless the device allows fewer.
struct StepAttention {
  uint32_t heads, keys, threads;
};

inline constexpr uint32_t kShortContext = 4096;  // positions

struct VulkanTuning {
  uint32_t n_processors;  // assumed if the driver does not report it

  // Threads of a workgroup, unless the device allows fewer.
  uint32_t threads;           // of kernels without a fixed shape
  uint32_t sampling_threads;  // of sampling_filters, and at most of sample_token
  uint32_t lstm_threads;      // of lstm, at most one per gate
  // Of paged_attention for few rows, if one workgroup has all of more than 1,024 positions.
  uint32_t long_attention_threads;

  // matmul_vector.
  uint32_t vector_subgroups;      // per workgroup
  uint32_t vector_split;          // subgroups that share an output; 0: by n_in
  uint32_t vector_outs;           // outputs of a subgroup
  uint32_t vector_outs_of_many;   // the same if n_out is 16,384 or more
  uint32_t vector_outs_minimums;  // the same for one row by quantized weights with minimums
  // With this number of rows or fewer, matmul_vector is faster than matrix units. The first whose
  // condition holds counts.
  uint32_t vector_rows_of_many;   // n_out is 16,384 or more
  uint32_t vector_rows_of_long;   // n_in is 4,096 or more
  uint32_t vector_rows_of_small;  // the weight has 2^21 elements or fewer
  uint32_t vector_rows;           // of other products
  // Without matrix units, it applies gates with this number of rows or fewer.
  uint32_t vector_gate_rows;
  // With this number of rows or fewer, it applies the RMS norm before it.
  uint32_t vector_norm_rows;
  // With this number of columns in all rows together or fewer, it applies the layer norm before it.
  uint32_t vector_layer_norm_columns;
  uint32_t vector_ahead;  // steps whose weights it loads before a layer norm

  // matmul_int8, for quantized weights.
  uint32_t int8_rows;          // at most; 0: not used
  uint32_t int8_norm_rows;     // with this number of rows or fewer, it applies the norm before it
  Int8Shape int8_row;          // of one row
  Int8Shape int8_row_to_int8;  // of one row, with a result of int8
  Int8Shape int8_long_row;     // of one row with a norm, if n_in is 4,096 or more
  Int8Shape int8_long_row_to_int8;  // the same with a result of int8
  Int8Shape int8_rows_of_short;     // of more rows
  Int8Shape int8_rows_of_long;      // the same if n_in is 4,096 or more

  // A dispatch for one row, of up to this many workgroups per processor, waits by a counter for one
  // of up to twice as many, where the driver starts workgroups in order (stage_order.h). For more
  // rows half as many. 0: barriers.
  uint32_t order_groups;

  // matmul_tiled has tiles of 128 x 128 if they make this number of workgroups, else of 64 x 64.
  uint32_t large_tile_groups;

  // matmul_cooperative. A product has the tile and the number of workgroups per tile that take the
  // least time by these numbers.
  std::array<MatmulTile, kMatmulTiles> tiles;
  std::array<MatmulTile, kMatrixTiles> matrix_tiles;  // for weights in the order of matrices
  // If several workgroups divide the columns of a tile: more time for each product, and sums that
  // all workgroups write per nanosecond.
  uint32_t split_ns, written_per_ns;
  // Weights of this size or more do not stay in the cache. Successive workgroups then have the same
  // outputs of up to eight blocks of rows, which read the weights from memory once. With smaller
  // weights they have successive outputs of one block of rows, which are written together.
  uint32_t grouped_weight_bytes;
  uint32_t matmul_splits;  // workgroups per tile; 0: chosen

  // Attention.
  uint32_t attention_splits;  // workgroups per row and heads of paged_attention; 0: by length
  StepAttention step_attention;
  // With at most two heads of all rows per processor, in a context of kShortContext or less.
  StepAttention step_attention_of_few;
  // With more than two such workgroups per processor, where at least its `heads` share keys.
  StepAttention step_attention_of_many;
  StepAttention step_attention_of_codes;  // with quantized keys
  AttentionTile attention_tile;
  AttentionTile attention_tile_of_wide_heads;  // with a head_dim above 64
  uint32_t attention_shared;  // not 0: probabilities go through shared memory on every device

  // The host polls a fence for 2 ms before it waits. On an H200 polling returns 11 us after the
  // end, waiting 32 us. A software device needs the core for its work.
  bool polls;
  // A dispatch has run when the next command is reached; relevant for timestamps.
  bool runs_in_order;
};

// The row for a GPU or a software device, changed by the environment variable VESPER_TUNING, for
// experiments: NAME=NUMBERxNUMBERx...,NAME=... with these names.
//   matmul_tile=ROWSxOUTSxDEPTHxSUBGROUP_ROWSxSUBGROUP_OUTS
//   matrix_tile, likewise, for weights in the order of matrices
//   matmul_splits=N, at most 8
//   attention_tile=SUBGROUPSxDOWNxKEYSxBUFFERS
//   attention_shared=N
//   attention_splits=N, at most 32
//   step_attention=HEADSxKEYSxTHREADS
//   int8_rows=ROWSxNORM_ROWS
//   int8_shape=OUTSxSUBGROUPSxSPLITxTURNS
//   vector_rows=ROWSxNORM_ROWS
//   vector_ahead=STEPS
//   vector_shape=OUTSxSPLIT
//   order_groups=N
// Throws Error(kUsage) for another name or another number of numbers.
VulkanTuning vulkan_tuning(bool is_hardware_gpu);
// The same with `changes` instead of the variable's value.
VulkanTuning vulkan_tuning(bool is_hardware_gpu, std::string_view changes);

}  // namespace vesper

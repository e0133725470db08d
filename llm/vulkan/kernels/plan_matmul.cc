// Plans of products with weights.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "llm/vulkan/kernels/kernel_planner.h"

namespace vesper {
namespace {

// A product with this number of outputs or more has workgroups for all processors.
constexpr uint32_t kManyOuts = 16384;
// Blocks of rows that read large weights together. On an H200, 4 to 32 are equally fast, and 1 and 2
// are slower (docs/measurements/0031, "Prompts").
constexpr uint32_t kGroupedBlocks = 8;

uint32_t weight_rows(const MatmulParams& p) {
  return (p.flags & kMatmulGated) != 0 ? 2 * p.n_out : p.n_out;
}

}  // namespace

void KernelPlanner::matmul(const MatmulParams& p) {
  require_weight(p.weight_format);
  require(p.rows_per_batch != 0 && p.n_in != 0 && p.n_out != 0, "sizes above 0");
  require(p.activation <= kActivationSigmoid, "a known activation");
  const bool blocks_of_codes = in_blocks(p.weight_format);
  require(!blocks_of_codes || (present(5) && p.n_in % 32 == 0),
          "scales beside a quantized weight of whole blocks");
  const uint32_t has_scale = !blocks_of_codes && present(5);
  const uint32_t has = present(3) * 1u + present(4) * 2u + has_scale * 4u;
  if ((p.weight_format & kWeightInt8Products) && p.n_rows <= tuning_.int8_rows &&
      p.n_rows <= p.rows_per_batch && p.in_row_stride == p.n_in && p.out_row_stride == p.n_out &&
      rows_aligned(p, 4)) {
    return matmul_int8(p, has);
  }
  require_float(p.in_dtype);
  require_float(p.out_dtype);
  const bool cooperative = (p.weight_format & kWeightHalfProducts) &&
                           capabilities_.has_cooperative_matrix() && rows_aligned(p, 8);
  if (in_matrices(p.weight_format)) {
    require(cooperative && !present(7),
            "aligned rows without a norm for weights in the order of matrices");
    require(((p.flags & kMatmulGated) != 0) == ((p.weight_format & kWeightGatesInMatrices) != 0),
            "gates exactly if the weight has gate rows beside up rows");
    return matmul_cooperative(p, has);
  }
  const uint32_t most_rows =
      present(7) || !cooperative ? kMaxVectorRows : std::min(vector_rows(p), kMaxVectorRows);
  if (p.n_rows <= most_rows && p.rows_per_batch >= p.n_rows) return matmul_vector(p, has);
  require(!present(7), "few rows for a norm");
  if (cooperative) return matmul_cooperative(p, has);
  require((p.flags & kMatmulGated) == 0, "matrix units or few rows for gates");
  uint32_t tile = 64;
  if (capabilities_.max_workgroup_threads >= 256 &&
      uint64_t{blocks(p.n_rows, 128)} * blocks(p.n_out, 128) >= tuning_.large_tile_groups) {
    tile = 128;
  }
  shader(Shader::kMatmulTiled,
         {tile / 8 * (tile / 8), tile, tile, p.in_dtype, p.out_dtype, storage(p.weight_format),
          p.flags, has, rows_aligned(p, 4), p.activation});
  push_addresses(6);
  push(&p, sizeof p);
  plan_.groups = {blocks(p.n_out, tile), blocks(p.n_rows, tile), 1};
}

bool KernelPlanner::rows_aligned(const MatmulParams& p, uint32_t n) const {
  const uint64_t element = p.in_dtype == kDTypeF16 ? 2 : 4;
  const bool batches = p.n_rows > p.rows_per_batch;
  return p.n_in % n == 0 && p.in_row_stride % n == 0 && (!batches || p.in_batch_stride % n == 0) &&
         address(1) % std::min<uint64_t>(16, n * element) == 0;
}

uint32_t KernelPlanner::vector_rows(const MatmulParams& p) const {
  if (p.n_out >= kManyOuts) return tuning_.vector_rows_of_many;
  if (p.n_in >= 4096) return tuning_.vector_rows_of_long;
  const bool is_small = uint64_t{weight_rows(p)} * p.n_in <= uint64_t{1} << 21;
  return is_small ? tuning_.vector_rows_of_small : tuning_.vector_rows;
}

void KernelPlanner::matmul_cooperative(const MatmulParams& p, uint32_t has) {
  const auto [tile, n_splits] = choose_tile(p);
  const uint32_t side = capabilities_.matrix_m;
  const uint32_t threads = tile.subgroups() * capabilities_.subgroup_size;
  require(tile.rows % tile.subgroup_rows == 0 && tile.outs % tile.subgroup_outs == 0 &&
              tile.subgroup_rows % side == 0 && tile.subgroup_outs % side == 0 &&
              tile.depth % 32 == 0 && threads % (tile.depth / 8) == 0,
          "a tile of whole subgroups, matrices and blocks of columns");
  const bool batches = p.n_rows > p.rows_per_batch;
  const auto is_uneven = [&](uint32_t row_stride, uint32_t batch_stride) -> uint32_t {
    return batches && batch_stride != uint64_t{p.rows_per_batch} * row_stride;
  };
  const uint32_t in_batches = is_uneven(p.in_row_stride, p.in_batch_stride);
  const uint32_t out_batches = is_uneven(p.out_row_stride, p.out_batch_stride);
  const bool aligned_out = p.n_out % 8 == 0 && p.out_row_stride % 8 == 0 &&
                           (!batches || p.out_batch_stride % 8 == 0) &&
                           (address(0) | address(3) | address(4) | address(5)) % 16 == 0;
  const uint32_t out_blocks = blocks(weight_rows(p), tile.outs);
  const uint32_t row_blocks = blocks(p.n_rows, tile.rows);
  const bool in_groups =
      n_splits == 1 && row_blocks > 1 && command_.operands[2].bytes >= tuning_.grouped_weight_bytes;
  shader(Shader::kMatmulCooperative,
         {threads, tile.rows, tile.outs, tile.depth, tile.subgroup_rows, tile.subgroup_outs, side,
          capabilities_.matrix_k, p.in_dtype | p.out_dtype << 4, p.flags, has, aligned_out,
          storage(p.weight_format), p.activation, n_splits, p.n_in % tile.depth == 0,
          in_matrices(p.weight_format), in_batches | out_batches << 1, in_groups});
  push_addresses(6);
  push(&p, sizeof p);
  plan_.groups = {out_blocks, row_blocks, n_splits};
  if (in_groups) {
    const uint32_t of_group = std::min(row_blocks, kGroupedBlocks);
    plan_.groups = {of_group, out_blocks, blocks(row_blocks, of_group)};
  }
  if (n_splits == 1) return;
  const uint64_t scratch_addresses[2] = {};
  push(scratch_addresses, sizeof scratch_addresses);
  const uint32_t n_tiles = out_blocks * row_blocks;
  plan_.n_counters = n_tiles + 1;
  plan_.scratch_bytes = sizeof(float) * uint64_t{n_tiles} * n_splits * tile.rows * tile.outs;
}

KernelPlanner::TileChoice KernelPlanner::choose_tile(const MatmulParams& p) const {
  // Llama-3.2-1B's product of 2,048 outputs by 8,192 columns takes 31 us for 16 rows and 40 us for
  // 64 rows on an H200 if 16 workgroups divide its columns. If 8 do, it takes 16 us and 25 us.
  constexpr uint32_t kMostSplits = 8;
  TileChoice best{};
  uint64_t best_ns = UINT64_MAX;
  const bool ordered = in_matrices(p.weight_format);
  std::span<const MatmulTile> tiles = tuning_.tiles;
  if (ordered) tiles = tuning_.matrix_tiles;
  for (const MatmulTile& tile : tiles) {
    // A row of a block, and one of sums, has 16 bytes of padding, and there is a counter.
    const uint32_t in_bytes = (tile.rows + (ordered ? 0 : tile.outs)) * (tile.depth * 2 + 16);
    const uint32_t sum_bytes =
        tile.subgroups() * capabilities_.matrix_m * (tile.subgroup_outs * 4 + 16);
    if (std::max(in_bytes, sum_bytes) + 4 > capabilities_.shared_bytes) continue;
    // Splits pay only if there are fewer tiles than processors.
    const uint64_t n_tiles =
        uint64_t{blocks(p.n_rows, tile.rows)} * blocks(weight_rows(p), tile.outs);
    uint32_t first = 1, last = n_tiles < n_processors() ? kMostSplits : 1;
    // The kernel counts fewer than 4,096 tiles.
    if (tuning_.matmul_splits != 0 && n_tiles < 4096) {
      first = last = std::min(tuning_.matmul_splits, kMostSplits);
    }
    const uint32_t n_steps = blocks(p.n_in, tile.depth);
    for (uint32_t n = std::min(first, n_steps); n <= std::min(last, n_steps); ++n) {
      const uint64_t ns = estimated_ns(p, {tile, n});
      if (ns >= best_ns) continue;
      best = {tile, n};
      best_ns = ns;
    }
  }
  require(best_ns != UINT64_MAX, "a tile that fits in shared memory");
  return best;
}

uint64_t KernelPlanner::estimated_ns(const MatmulParams& p, const TileChoice& choice) const {
  const auto& [tile, n_splits] = choice;
  const uint64_t groups =
      uint64_t{blocks(p.n_rows, tile.rows)} * blocks(weight_rows(p), tile.outs) * n_splits;
  // In full rounds every processor runs `at_once` workgroups, in the last one perhaps fewer.
  const uint64_t processors = n_processors(), of_round = tile.at_once * processors;
  const uint64_t full = groups / of_round, last = groups % of_round;
  uint64_t step_ns = full * (tile.latency_ns + uint64_t{tile.at_once} * tile.busy_ns);
  if (last != 0) step_ns += tile.latency_ns + (last + processors - 1) / processors * tile.busy_ns;
  // Before the first block of columns there is nothing to do but to wait for it.
  const uint64_t ns = (blocks(blocks(p.n_in, tile.depth), n_splits) + 1) * step_ns;
  if (n_splits == 1) return ns;
  return ns + tuning_.split_ns + groups * tile.rows * tile.outs / tuning_.written_per_ns;
}

KernelPlanner::VectorShape KernelPlanner::vector_shape(const MatmulParams& p) const {
  const uint32_t subgroup = capabilities_.subgroup_size;
  const uint32_t columns = blocks(p.n_in, 32) * 32;
  // An output is split over subgroups until each has two loads left. Few outputs per subgroup
  // give enough subgroups to keep the memory busy. With one row by quantized weights a lane loads
  // 32 columns at once.
  const bool one_row_of_blocks = in_blocks(p.weight_format) && p.n_rows == 1;
  const bool many_outs = p.n_out >= kManyOuts;
  uint32_t outs = many_outs ? tuning_.vector_outs_of_many : tuning_.vector_outs;
  uint32_t split = std::max(tuning_.vector_split, 1u);
  if (one_row_of_blocks && names_minimums(p.weight_format)) outs = tuning_.vector_outs_minimums;
  if (tuning_.vector_split == 0) {
    if (one_row_of_blocks) {
      if (!many_outs && columns >= 2048) split = 2;
    } else {
      while (split < tuning_.vector_subgroups && columns >= split * 2 * subgroup * 8 * 2) {
        split *= 2;
      }
    }
  }
  const uint32_t out_groups = std::max(tuning_.vector_subgroups / split, 1u);
  if (p.n_rows > 4) outs = std::min(outs, 2u);
  if (p.flags & kMatmulGated) outs = std::max(outs / 2 * 2, 2u);
  return {split * out_groups * subgroup, outs, out_groups, split};
}

void KernelPlanner::matmul_vector(const MatmulParams& p, uint32_t has) {
  const bool gated = (p.flags & kMatmulGated) != 0;
  require((!gated && !present(7)) || !in_blocks(p.weight_format),
          "int8 rows for a norm or gates of a quantized weight");
  require(!present(7) || (p.in_dtype == kDTypeF32 && address(7) % 16 == 0), "a norm of f32 rows");
  require(present(7) || (p.flags & kMatmulLayerNorm) == 0, "weights of a layer norm");
  require(!present(7) || (p.flags & kMatmulLayerNorm) == 0 ||
              uint64_t{p.n_rows} * (blocks(p.n_in, 32) * 128 + 2048) <= capabilities_.shared_bytes,
          "rows of a layer norm that fit in shared memory");
  const VectorShape shape = vector_shape(p);
  const uint32_t aligned = rows_aligned(p, 4);
  shader(Shader::kMatmulVector,
         {shape.threads, p.n_rows, shape.outs, shape.out_groups, shape.split, p.in_dtype,
          p.out_dtype, storage(p.weight_format), p.flags,
          has | present(7) * (p.flags & kMatmulLayerNorm ? 16u : 8u), aligned, p.activation, 0,
          std::bit_cast<uint32_t>(p.norm_epsilon), p.n_in, tuning_.vector_ahead});
  push_addresses(6);
  const uint32_t sizes[] = {p.n_out, p.in_row_stride, p.out_row_stride, 0};
  push(sizes, sizeof sizes);
  const uint64_t norm_weight = address(7);
  push(&norm_weight, sizeof norm_weight);
  allow_waiting(96, p.n_rows);  // after the operands of experts
  plan_.groups = {blocks(p.n_out, shape.out_groups * (gated ? shape.outs / 2 : shape.outs)), 1, 1};
}

const Int8Shape& KernelPlanner::int8_shape(const MatmulParams& p) const {
  const bool is_long = p.n_in >= 4096, writes_int8 = p.out_dtype == kDTypeI8;
  if (p.n_rows > 1) return is_long ? tuning_.int8_rows_of_long : tuning_.int8_rows_of_short;
  if (is_long && present(7)) {
    return writes_int8 ? tuning_.int8_long_row_to_int8 : tuning_.int8_long_row;
  }
  return writes_int8 ? tuning_.int8_row_to_int8 : tuning_.int8_row;
}

void KernelPlanner::matmul_int8(const MatmulParams& p, uint32_t has) {
  require(!present(7) || (p.in_dtype == kDTypeF32 && address(7) % 16 == 0), "a norm of f32 rows");
  require(p.in_dtype == kDTypeI8 || p.in_dtype <= kDTypeF16, "f32, f16 or int8 rows");
  require((p.flags & kMatmulLayerNorm) == 0, "no layer norm of int8 rows");
  const bool writes_int8 = p.out_dtype == kDTypeI8, gated = (p.flags & kMatmulGated) != 0;
  if (!writes_int8) require_float(p.out_dtype);
  const uint32_t subgroup = capabilities_.subgroup_size;
  const Int8Shape& shape = int8_shape(p);
  // A workgroup writes whole blocks of 32 outputs, in turns if it has fewer.
  const uint32_t most = writes_int8 ? (gated ? 64 : 32) / shape.outs : shape.subgroups;
  const uint32_t subgroups =
      std::min({shape.subgroups, most, capabilities_.max_workgroup_threads / subgroup});
  const bool splits = p.n_in >= 64 * subgroup && p.n_out < kManyOuts && !writes_int8;
  const uint32_t split = splits ? std::min(shape.split, subgroups) : 1;
  const uint32_t outs = shape.outs, out_groups = subgroups / split;
  const uint32_t width = out_groups * (gated ? outs / 2 : outs);
  const uint32_t turns = std::max(shape.turns, writes_int8 ? blocks(32, width) : 1);
  require(!writes_int8 || (p.n_out % 32 == 0 && turns * width % 32 == 0),
          "whole blocks of outputs");
  // A column of a row takes a byte, and a block 12 more.
  const uint32_t fitting = capabilities_.shared_bytes * 3 / 4 / (p.n_rows * 11 / 8 + 1);
  const uint32_t chunk = p.in_dtype == kDTypeI8 ? p.n_in : std::min(p.n_in, fitting / 1024 * 1024);
  shader(Shader::kMatmulInt8,
         {split * out_groups * subgroup, p.n_rows, outs, out_groups, split,
          p.in_dtype | p.out_dtype << 4, storage(p.weight_format), p.flags, has | present(7) * 8u,
          p.activation, p.n_out, p.n_in, chunk, std::bit_cast<uint32_t>(p.norm_epsilon), turns});
  for (const uint32_t operand : {0, 1, 2, 3, 4, 5, 7}) {
    const uint64_t value = address(operand);
    push(&value, sizeof value);
  }
  allow_waiting(plan_.push_bytes, p.n_rows);
  plan_.groups = {blocks(p.n_out, turns * width), 1, 1};
}

void KernelPlanner::group_experts(const GroupExpertsParams& p) {
  require(p.n_used != 0 && p.n_experts <= kMostExperts, "512 experts at most");
  require(p.n_tiles >= most_expert_tiles(p.n_slots, p.n_experts), "room for every tile");
  shader(Shader::kGroupExperts, {threads(), present(2)});
  push_addresses(3);
  push_tiles(0, p.n_slots);
  push(&p, sizeof p);
}

void KernelPlanner::push_tiles(uint32_t groups, uint32_t n_slots) {
  const uint64_t tiles = address(groups) + sizeof(uint32_t) * uint64_t{n_slots};
  push(&tiles, sizeof tiles);
}

void KernelPlanner::expert_matmul(const ExpertMatmulParams& p) {
  require_weight(p.weight_format);
  require_float(p.in_dtype);
  require_float(p.out_dtype);
  require(p.n_used != 0 && p.n_in != 0 && p.n_out != 0 && p.n_slots != 0, "sizes above 0");
  const uint64_t weight_rows = uint64_t{p.n_experts} * p.n_out;
  require(weight_rows * blocks(p.n_in, 32) * 32 <= UINT32_MAX &&
              uint64_t{p.n_slots} * std::max(p.n_in, p.n_out) <= UINT32_MAX,
          "elements that 32 bits can count");
  const bool blocks_of_codes = in_blocks(p.weight_format);
  require(!blocks_of_codes || (present(4) && p.n_in % 32 == 0),
          "scales beside a quantized weight of whole blocks");
  MatmulParams one{};  // the product of one expert
  one.n_rows = one.rows_per_batch = present(7) ? p.n_slots : 1;
  one.n_out = one.out_row_stride = p.n_out;
  one.n_in = one.in_row_stride = p.n_in;
  one.in_dtype = p.in_dtype;
  one.out_dtype = p.out_dtype;
  one.weight_format = p.weight_format;
  const uint32_t has = present(3) * 1u + (!blocks_of_codes && present(4)) * 4u;
  const uint32_t in_slots = p.in_per_slot ? 1 : p.n_used;
  if (!present(7)) return expert_vector(p, one, has, in_slots);
  static_assert(kExpertTileRows == 64);
  constexpr uint32_t kTile = kExpertTileRows;
  shader(Shader::kMatmulTiled,
         {kTile / 8 * (kTile / 8), kTile, kTile, p.in_dtype, p.out_dtype, storage(p.weight_format),
          0, has, rows_aligned(one, 4), kActivationNone, 1});
  push_expert_operands();
  push(&one, sizeof one);
  const uint64_t slots = address(7);
  push(&slots, sizeof slots);
  push_tiles(7, p.n_slots);
  push(&in_slots, sizeof in_slots);
  plan_.groups = {blocks(p.n_out, kTile), p.n_tiles, 1};
}

void KernelPlanner::push_expert_operands() {
  push_addresses(4);
  for (const uint64_t value : {uint64_t{0}, address(4)}) push(&value, sizeof value);
}

void KernelPlanner::expert_vector(const ExpertMatmulParams& p, const MatmulParams& one,
                                  uint32_t has, uint32_t in_slots) {
  const VectorShape shape = vector_shape(one);
  shader(Shader::kMatmulVector,
         {shape.threads, 1, shape.outs, shape.out_groups, shape.split, p.in_dtype, p.out_dtype,
          storage(p.weight_format), 0, has, rows_aligned(one, 4), kActivationNone,
          present(6) ? 2u : 1u, 0, p.n_in});
  push_expert_operands();
  const uint32_t sizes[] = {p.n_out, p.n_in, p.n_out, p.n_used};
  push(sizes, sizeof sizes);
  for (const uint64_t value : {uint64_t{0}, address(5), address(6)}) push(&value, sizeof value);
  push(&in_slots, sizeof in_slots);
  plan_.groups = {blocks(p.n_out, shape.out_groups * shape.outs), p.n_slots, 1};
}

}  // namespace vesper

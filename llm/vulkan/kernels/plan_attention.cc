// Plans of attention.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "llm/vulkan/kernels/kernel_planner.h"

namespace vesper {

void KernelPlanner::require_kv_dtype(uint32_t dtype, uint32_t page_rows, uint32_t head_dim) const {
  require(dtype == kDTypeF32 || dtype == kDTypeF16 || kv_is_quantized(dtype),
          "pages of f32, f16, q8_0 or q4_0");
  if (!kv_is_quantized(dtype)) return;
  // Eight lanes share the scale of a block that is stored.
  require(head_dim % 32 == 0 && capabilities_.subgroup_size >= 8,
          "quantized rows of whole blocks, and subgroups of 8 or more");
  require(kv_head_bytes(dtype, page_rows, head_dim) % 8 == 0, "loads of 8 bytes in a page");
}

void KernelPlanner::paged_attention(const PagedAttentionParams& p) {
  require_float(p.q_dtype);
  require_kv_dtypes(p.kv_dtypes, p.page_rows, p.head_dim);
  if (p.out_dtype == kDTypeI8) {
    require(p.head_dim % 32 == 0, "int8 rows of whole blocks");
  } else {
    require_float(p.out_dtype);
  }
  require(p.head_dim % 8 == 0 && p.head_dim <= 256, "a head_dim of a multiple of 8 up to 256");
  require(p.n_kv_heads != 0 && p.n_heads % p.n_kv_heads == 0,
          "heads in equal groups on the heads of keys");
  require((address(1) | address(2) | address(3)) % 16 == 0 && p.q_row_stride % 4 == 0,
          "queries and pages at multiples of 16 bytes");
  const bool writes_kv = (p.flags & kAttentionWritesKv) != 0;
  require(!writes_kv || (p.kv_length == 0 &&
                         attention_can_write_kv(p.kv_dtypes, p.n_pairs, p.interleaved != 0)),
          "pages of f32 or f16, and whole groups of rotated dimensions");
  require((address(7) | address(8) | address(9)) % 16 == 0, "angles and norms at 16 bytes");
  if (paged_attention_cooperative(p)) return;
  // Lanes of a row of keys, and rows at once: as many as fit a page evenly.
  const uint32_t subgroup = capabilities_.subgroup_size;
  const bool one_page = p.pages_per_sequence == 1;
  const auto in_page = [&](uint32_t n) { return one_page || p.page_rows % n == 0; };
  uint32_t lanes = std::min(std::bit_ceil(p.head_dim / 8), subgroup);
  while (!in_page(subgroup / lanes)) lanes *= 2;
  const uint32_t longest = p.kv_length != 0 ? p.kv_length : p.pages_per_sequence * p.page_rows;
  const uint32_t sharing = p.n_heads / p.n_kv_heads;
  const StepAttention& shape = step_attention(p, sharing, longest);
  uint32_t ahead = shape.keys;
  while (!in_page(ahead * (subgroup / lanes))) --ahead;
  // Heads that share keys and values, in equal blocks. The last block may overlap the one before.
  const uint32_t n_blocks = blocks(sharing, shape.heads), heads = blocks(sharing, n_blocks),
                 n_groups = p.n_kv_heads * n_blocks;
  const uint32_t n_splits = splits(p, n_groups, longest);
  uint32_t n_threads = at_most(shape.threads);
  if (p.kv_length > 1024 && p.n_rows <= 8) {
    // If workgroups share the positions, each subgroup has as many as it loads at once.
    const uint32_t n_subgroups = blocks(p.kv_length, n_splits * ahead * (subgroup / lanes));
    n_threads = at_most(n_splits == 1 ? tuning_.long_attention_threads
                                      : subgroup * std::bit_ceil(n_subgroups));
  }
  while (n_threads > subgroup &&
         4 * heads * (n_threads / subgroup) * (p.head_dim + 2) + 4 > capabilities_.shared_bytes) {
    n_threads /= 2;
  }
  require(!writes_kv || n_threads >= 2 * subgroup, "a subgroup for the new position");
  const uint32_t flags = writes_kv * 1u + present(7) * 2u + present(8) * 4u + present(9) * 8u +
                         (p.interleaved != 0) * 16u + present(6) * 32u;
  shader(Shader::kPagedAttention,
         {n_threads, p.head_dim, p.q_dtype | p.out_dtype << 4, key_dtype(p.kv_dtypes),
          value_dtype(p.kv_dtypes), p.page_rows, one_page, subgroup, lanes, ahead, n_splits, heads,
          std::bit_cast<uint32_t>(p.soft_cap), std::bit_cast<uint32_t>(p.scale), flags, p.n_pairs,
          std::bit_cast<uint32_t>(p.norm_epsilon), p.n_heads, p.n_kv_heads});
  push_addresses(10);
  push(&p, sizeof(PagedAttentionValues));
  allow_waiting(plan_.push_bytes + 2 * sizeof(uint64_t), p.n_rows);  // after the scratch addresses
  plan_.groups = {n_groups, p.n_rows, n_splits};
  if (n_splits == 1) return;
  const uint64_t scratch_addresses[2] = {};
  push(scratch_addresses, sizeof scratch_addresses);
  plan_.n_counters = p.n_rows * n_groups;
  plan_.scratch_bytes =
      sizeof(float) * uint64_t{p.n_rows} * p.n_heads * n_splits * (p.head_dim + 2);
}

const StepAttention& KernelPlanner::step_attention(const PagedAttentionParams& p, uint32_t sharing,
                                                   uint32_t longest) const {
  if (kv_is_quantized(key_dtype(p.kv_dtypes))) return tuning_.step_attention_of_codes;
  if (uint64_t{p.n_rows} * p.n_heads <= 2 * n_processors() && longest <= kShortContext) {
    return tuning_.step_attention_of_few;
  }
  const StepAttention& many = tuning_.step_attention_of_many;
  const bool is_many =
      uint64_t{p.n_rows} * p.n_kv_heads * blocks(sharing, many.heads) > 2 * n_processors();
  return is_many && sharing >= many.heads ? many : tuning_.step_attention;
}

// More than one if rows and heads are too few for the device and there may be many positions.
uint32_t KernelPlanner::splits(const PagedAttentionParams& p, uint32_t n_groups,
                               uint32_t longest) const {
  if (tuning_.attention_splits != 0) return std::min(tuning_.attention_splits, 32u);
  // A workgroup has at least 96 positions of a window, or 256 of a text. If it would have more than
  // 256 of a window, one workgroup for all was as fast or faster on an H200
  // (docs/measurements/0031, "Workgroups share the positions of a window").
  const uint32_t least_positions = p.kv_length != 0 ? 96 : 256;
  const uint32_t n = std::clamp(2 * n_processors() / (p.n_rows * n_groups), 1u,
                                std::clamp(longest / least_positions, 1u, 24u));
  return p.kv_length / n > 256 ? 1 : n;
}

bool KernelPlanner::paged_attention_cooperative(const PagedAttentionParams& p) {
  if ((p.flags & kAttentionOneSequence) == 0 || p.n_rows <= kMaxVectorRows || p.kv_length != 0 ||
      p.q_dtype != kDTypeF16 || key_dtype(p.kv_dtypes) == kDTypeF32 ||
      value_dtype(p.kv_dtypes) == kDTypeF32 || p.out_dtype == kDTypeI8 ||
      (p.q_row_stride | p.out_row_stride) % 8 != 0 || (address(0) | address(1)) % 16 != 0) {
    return false;
  }
  const std::optional<AttentionTile> tile = attention_tile(p.head_dim);
  if (!tile) return false;
  const uint32_t side = capabilities_.matrix_m, subgroup = capabilities_.subgroup_size;
  shader(
      Shader::kPagedAttentionCooperative,
      {tile->subgroups * subgroup, p.head_dim, tile->subgroups, tile->down, side,
       capabilities_.matrix_k, p.out_dtype, subgroup / side, tile->keys, p.page_rows,
       std::bit_cast<uint32_t>(p.soft_cap), key_dtype(p.kv_dtypes), value_dtype(p.kv_dtypes),
       in_registers(), tile->buffers, present(6), std::bit_cast<uint32_t>(p.scale), p.n_kv_heads});
  push_addresses(7);
  push(&p, sizeof(PagedAttentionValues));
  plan_.groups = {p.n_heads, blocks(p.n_rows, tile->subgroups * tile->down * side), 1};
  return true;
}

void KernelPlanner::attention_weights(const AttentionWeightsParams& p) {
  require_float(p.q_dtype);
  require_kv_dtype(p.k_dtype, p.page_rows, p.head_dim);
  require(p.head_dim % 8 == 0 && p.head_dim <= 256, "a head_dim of a multiple of 8 up to 256");
  require(p.n_kv_heads != 0 && p.n_heads % p.n_kv_heads == 0,
          "heads in equal groups on the heads of keys");
  require(address(2) % 16 == 0, "pages at multiples of 16 bytes");
  shader(Shader::kAttentionWeights, {threads(), p.head_dim, p.q_dtype, p.k_dtype});
  push_addresses(7);
  push(&p, sizeof p);
  plan_.groups = {p.n_selected, p.n_rows, 1};
}

void KernelPlanner::attention(const AttentionParams& p) {
  require_float(p.in_dtype);
  require_float(p.out_dtype);
  require(p.head_dim % 8 == 0, "a head_dim of a multiple of 8");
  require(p.n_kv_heads != 0 && p.n_heads % p.n_kv_heads == 0,
          "heads in equal groups on the heads of keys");
  if (attention_cooperative(p)) return;
  require(4 * (64 * (p.head_dim + 1) + 32 * 33 + 64) <= capabilities_.shared_bytes,
          "a head_dim whose tiles fit in shared memory");
  shader(Shader::kAttention, {64, p.head_dim, p.in_dtype, p.out_dtype, present(4),
                              p.causal != 0 || p.window != 0, present(5), present(6)});
  push_addresses(7);
  push(&p, sizeof p);
  plan_.groups = attention_groups(p, 32);
}

std::array<uint32_t, 3> KernelPlanner::attention_groups(const AttentionParams& p,
                                                        uint32_t rows) const {
  if (present(4)) return {p.rows_per_sequence / rows + p.n_sequences, p.n_heads, 1};
  return {blocks(p.rows_per_sequence, rows), p.n_heads, p.n_sequences};
}

bool KernelPlanner::attention_cooperative(const AttentionParams& p) {
  if (p.in_dtype != kDTypeF16 || present(5) ||
      (p.q_row_stride | p.k_row_stride | p.v_row_stride | p.out_row_stride) % 8 != 0 ||
      (address(0) | address(1) | address(2) | address(3)) % 16 != 0) {
    return false;
  }
  const std::optional<AttentionTile> tile = attention_tile(p.head_dim);
  if (!tile) return false;
  const uint32_t side = capabilities_.matrix_m, subgroup = capabilities_.subgroup_size;
  shader(Shader::kAttentionCooperative,
         {tile->subgroups * subgroup, p.head_dim, tile->subgroups, tile->down, side,
          capabilities_.matrix_k, p.out_dtype, subgroup / side, tile->keys, present(4),
          p.causal != 0 || p.window != 0, in_registers(), tile->buffers, present(6)});
  push_addresses(7);
  push(&p, sizeof p);
  plan_.groups = attention_groups(p, tile->subgroups * tile->down * side);
  return true;
}

std::optional<AttentionTile> KernelPlanner::attention_tile(uint32_t head_dim) const {
  const uint32_t side = capabilities_.matrix_m, inner = capabilities_.matrix_k;
  if (!capabilities_.has_cooperative_matrix() || head_dim % std::max(side, inner) != 0 ||
      head_dim % 8 != 0 || capabilities_.subgroup_size % side != 0) {
    return std::nullopt;
  }
  // A lane has kDown * head_dim / 2 sums. With kDown = 2 and a head_dim above 64, they and the
  // queries do not fit in the registers of NVIDIA's GPUs.
  const AttentionTile tuned =
      head_dim > 64 ? tuning_.attention_tile_of_wide_heads : tuning_.attention_tile;
  for (const AttentionTile& tile :
       {tuned, AttentionTile{tuned.subgroups, tuned.down, tuned.keys, 1}, {4, 1, 32, 1}}) {
    const auto [subgroups, down, keys, buffers] = tile;
    const uint32_t rows = subgroups * down * side,
                   n_threads = subgroups * capabilities_.subgroup_size;
    const uint32_t results = 16 * subgroups * side * (side / 4 + 1);
    uint32_t bytes = std::max(16 * buffers * 2 * keys * (head_dim / 8 + 1), results);
    if (!in_registers()) {
      bytes += 4 * subgroups * side * (keys + 8) + 16 * subgroups * side * (keys / 8 + 1);
    }
    if (bytes > capabilities_.shared_bytes || rows > 2 * keys ||
        n_threads > capabilities_.max_workgroup_threads || keys * (head_dim / 8) % n_threads != 0) {
      continue;
    }
    return tile;
  }
  return std::nullopt;
}

}  // namespace vesper

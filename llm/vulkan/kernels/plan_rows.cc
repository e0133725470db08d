// Plans of kernels that work on rows.
#include <algorithm>
#include <cstdint>

#include "llm/vulkan/kernels/kernel_planner.h"

namespace vesper {

void KernelPlanner::embed(const EmbedParams& p) {
  require_weight(p.weight_format);
  const bool blocks_of_codes = in_blocks(p.weight_format);
  require(!blocks_of_codes || (present(4) && p.d_model % 32 == 0),
          "scales beside a quantized weight of whole blocks");
  const uint32_t has_scale = !blocks_of_codes && present(4);
  shader(Shader::kEmbed, {threads(), storage(p.weight_format), present(3) * 1u + has_scale * 2u});
  push_addresses(5);
  push(&p, sizeof p);
  plan_.groups = {blocks(p.d_model, threads()), p.n_rows, 1};
}

void KernelPlanner::norm(const NormParams& p) {
  if (p.out_dtype != kDTypeI8) require_float(p.out_dtype);
  require_float(p.in_dtype);
  // Four values per thread if rows begin at multiples of 16 bytes.
  const bool aligned = p.d % 4 == 0 && p.row_stride % 4 == 0 &&
                       (address(0) | address(1) | address(2) | address(3) | address(5)) % 16 == 0;
  require(p.out_dtype != kDTypeI8 || (aligned && p.d % 32 == 0 && p.row_stride == p.d),
          "int8 rows of whole blocks");
  const uint32_t vectors = blocks(p.d, 4), subgroup = capabilities_.subgroup_size;
  const uint32_t n_threads = std::min(blocks(vectors, subgroup) * subgroup,
                                      std::min(2 * threads(), capabilities_.max_workgroup_threads));
  shader(Shader::kNorm, {n_threads, blocks(vectors, n_threads), p.kind, p.out_dtype,
                         present(3) * 1u + present(4) * 2u + present(5) * 4u, aligned, p.in_dtype});
  push_addresses(6);
  push(&p, sizeof p);
  if (p.n_rows <= kMaxVectorRows) {
    allow_waiting(blocks(plan_.push_bytes, sizeof(uint64_t)) * sizeof(uint64_t), p.n_rows);
  }
  plan_.groups = {p.n_rows, 1, 1};
}

void KernelPlanner::write_kv(const WriteKvParams& p) {
  require_float(p.in_dtype);
  require_kv_dtypes(p.kv_dtypes, p.page_rows, p.head_dim);
  const uint32_t keys = key_dtype(p.kv_dtypes), values = value_dtype(p.kv_dtypes);
  const uint32_t columns = kv_is_quantized(keys) || kv_is_quantized(values) ? 4 : 1;
  shader(Shader::kWriteKv, {threads(), p.in_dtype, keys, values, columns});
  push_addresses(6);
  push(&p, sizeof p);
  plan_.groups = {blocks(p.n_kv_heads * p.head_dim / columns, threads()), p.n_rows, 1};
}

void KernelPlanner::rope(const RopeParams& p) {
  require_float(p.dtype);
  if (present(7)) require_kv_dtypes(p.kv_dtypes, p.page_rows, p.head_dim);
  require(p.n_heads != 0 && p.n_kv_heads != 0 && p.head_dim != 0, "sizes above 0");
  require(2 * uint64_t{p.n_pairs} <= p.head_dim, "no more pairs than a head has");
  require(p.head_dim % 4 == 0 && p.row_stride % 4 == 0 && address(0) % 16 == 0,
          "heads at multiples of four elements");
  const uint64_t room = capabilities_.shared_bytes / (sizeof(float) * uint64_t{p.head_dim});
  require(room > 0, "a head_dim that fits in shared memory");
  const uint32_t subgroup = capabilities_.subgroup_size;
  const auto n_subgroups =
      static_cast<uint32_t>(std::min<uint64_t>(room, std::max(1u, threads() / subgroup)));
  shader(Shader::kRope, {n_subgroups * subgroup, n_subgroups, p.head_dim, p.dtype,
                         key_dtype(p.kv_dtypes), value_dtype(p.kv_dtypes),
                         present(2) * 1u + present(3) * 2u + present(4) * 4u + present(7) * 8u});
  push_addresses(8);
  push(&p, sizeof p);
  const uint32_t n_heads = p.n_heads + p.n_kv_heads * (present(7) ? 2 : 1);
  plan_.groups = {blocks(n_heads, n_subgroups), p.n_rows, 1};
}

void KernelPlanner::gated_activation(const GatedActivationParams& p) {
  require_float(p.in_dtype);
  require_float(p.out_dtype);
  shader(Shader::kGatedActivation, {threads(), p.activation, p.in_dtype, p.out_dtype});
  push_addresses(2);
  push(&p, sizeof p);
  plan_.groups = {blocks(p.d, threads()), p.n_rows, 1};
}

void KernelPlanner::route_experts(const RouteExpertsParams& p) {
  const uint32_t subgroup = capabilities_.subgroup_size;
  require(p.n_used != 0 && p.n_used <= p.n_experts, "as many chosen experts as there are at most");
  require(p.n_experts <= 64 * subgroup, "64 experts per lane at most");
  require(p.has_shared <= 1, "one shared expert at most");
  shader(Shader::kRouteExperts, {subgroup});
  push_addresses(3);
  push(&p, sizeof p);
  plan_.groups = {p.n_rows, 1, 1};
}

void KernelPlanner::combine_experts(const CombineExpertsParams& p) {
  require(p.n_used != 0, "sizes above 0");
  shader(Shader::kCombineExperts, {threads(), present(3)});
  push_addresses(4);
  push(&p, sizeof p);
  plan_.groups = {blocks(p.d, threads()), p.n_rows, 1};
}

void KernelPlanner::pool(const PoolParams& p) {
  require(p.dtype == kDTypeF32 || p.dtype == kDTypeF16, "rows must be f32 or f16");
  require(p.dtype == kDTypeF32 || (p.kind != kPoolMean && p.normalize == 0),
          "rows must be f32 to be added or normalized");
  shader(Shader::kPool, {threads(), p.kind, p.normalize, p.dtype, present(2)});
  push_addresses(3);
  push(&p, sizeof p);
  plan_.groups = {p.n_sequences, 1, 1};
}

void KernelPlanner::copy_pages(const CopyPagesParams& p) {
  require_kv_dtypes(p.kv_dtypes, p.page_rows, p.head_dim);
  const uint32_t keys = key_dtype(p.kv_dtypes), values = value_dtype(p.kv_dtypes);
  const uint32_t head_bytes = std::max(kv_head_bytes(keys, p.page_rows, p.head_dim),
                                       kv_head_bytes(values, p.page_rows, p.head_dim));
  shader(Shader::kCopyPages, {threads(), keys, values});
  push_addresses(3);
  push(&p, sizeof p);
  plan_.groups = {blocks(p.n_kv_heads * (head_bytes / 2), threads()), p.n_sequences, 1};
}

void KernelPlanner::activation(const ActivationParams& p) {
  shader(Shader::kActivation, {threads(), p.activation});
  push_addresses(2);
  push(&p, sizeof p);
  plan_.groups = {blocks(p.n, threads()), 1, 1};
}

void KernelPlanner::magnitude(const MagnitudeParams& p) {
  require(p.rows_per_batch != 0, "sizes above 0");
  shader(Shader::kMagnitude, {threads()});
  push_addresses(2);
  push(&p, sizeof p);
  plan_.groups = {blocks(p.n_bins, threads()), p.n_rows, 1};
}

void KernelPlanner::lstm(const LstmParams& p) {
  require(p.n_hidden != 0 && p.n_hidden % 16 == 0, "n_hidden of a multiple of 16");
  require(4 * 3 * uint64_t{p.n_hidden} <= capabilities_.shared_bytes,
          "n_hidden whose state fits in shared memory");
  require(capabilities_.subgroup_size >= 4, "subgroups of four lanes or more");
  shader(Shader::kLstm, {at_most(std::min(4 * p.n_hidden, tuning_.lstm_threads)), p.n_hidden});
  push_addresses(4);
  push(&p, sizeof p);
  plan_.groups = {p.n_sequences, 1, 1};
}

}  // namespace vesper

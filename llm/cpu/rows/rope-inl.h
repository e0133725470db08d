// rope: norms and rotates heads and writes keys and values to their pages, a few rows per task.
// Part of row_kernels.cc.
#if defined(VESPER_LLM_CPU_ROPE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_ROPE_INL_H_
#undef VESPER_LLM_CPU_ROPE_INL_H_
#else
#define VESPER_LLM_CPU_ROPE_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "llm/cpu/kv_rows-inl.h"
#include "llm/cpu/numbers-inl.h"
#include "llm/cpu/prepared_command.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// head [n] = its RMS norm; f32 sums over fixed lanes.
HWY_NOINLINE void norm_head(uint32_t n, float epsilon, const float* weight, float* head) {
  const F32 d;
  VF32 squares = hn::Zero(d);
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const VF32 x = hn::LoadU(d, head + i);
    squares = hn::MulAdd(x, x, squares);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, squares));
  for (; i < n; ++i) sum += head[i] * head[i];
  const float factor = 1.0f / std::sqrt(sum / static_cast<float>(n) + epsilon);
  for (i = 0; i < n; ++i) head[i] = head[i] * factor * weight[i];
}

// Rotates pairs (x, y) by angles, [n_pairs, 2].
HWY_NOINLINE void rotate_head(uint32_t n_pairs, bool interleaved, const float* angles,
                              float* head) {
  for (uint32_t i = 0; i < n_pairs; ++i) {
    float& first = interleaved ? head[2 * i] : head[i];
    float& second = interleaved ? head[2 * i + 1] : head[i + n_pairs];
    const float x = first, y = second, c = angles[2 * i], s = angles[2 * i + 1];
    first = x * c - y * s;
    second = x * s + y * c;
  }
}

void run_rope(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& params = command.params_as<RopeParams>();
  const uint32_t begin = task * command.rows_per_task;
  const uint32_t end = std::min(begin + command.rows_per_task, params.n_rows);
  const uint32_t dim = params.head_dim;
  const Row* rows = command.operand<const Row>(1);
  const float* all_angles = command.operand<const float>(2);
  const int32_t* page_table = command.operand<const int32_t>(7);
  float* const head = reinterpret_cast<float*>(scratch.data);
  for (uint32_t r = begin; r < end; ++r) {
    if (rows[r].sequence < 0) continue;
    const auto position = static_cast<size_t>(rows[r].position);
    const float* angles =
        all_angles == nullptr ? nullptr : all_angles + position * params.n_pairs * 2;
    size_t page = 0;
    if (page_table != nullptr) {
      page = static_cast<size_t>(
          page_table[static_cast<size_t>(rows[r].sequence) * params.pages_per_sequence +
                     position / params.page_rows]);
    }
    // Queries, keys, then values, which are only copied.
    const uint32_t n_rotated = params.n_heads + params.n_kv_heads;
    const uint32_t n_all = page_table == nullptr ? n_rotated : n_rotated + params.n_kv_heads;
    for (uint32_t h = 0; h < n_all; ++h) {
      const bool is_query = h < params.n_heads, is_value = h >= n_rotated;
      const size_t at = size_t{r} * params.row_stride + size_t{h} * dim;
      with_type(params.dtype, static_cast<const void*>(command.operands[0]),
                [&](const auto* from) { convert(from + at, dim, head); });
      if (!is_value) {
        const float* weight = command.operand<const float>(is_query ? 3 : 4);
        if (weight != nullptr) norm_head(dim, params.norm_epsilon, weight, head);
        if (angles != nullptr) {
          rotate_head(params.n_pairs, params.interleaved != 0, angles, head);
        }
      }
      if (is_query || page_table == nullptr) {
        with_type(params.dtype, command.operands[0],
                  [&](auto* to) { convert(head, dim, to + at); });
      } else {
        const uint32_t kv_head = (h - params.n_heads) % params.n_kv_heads;
        store_kv_row(is_value ? value_dtype(params.kv_dtypes) : key_dtype(params.kv_dtypes),
                     command.operands[is_value ? 6 : 5], params.page_rows, dim,
                     page * params.n_kv_heads + kv_head,
                     static_cast<uint32_t>(position % params.page_rows), head);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_rope);

void prepare_rope(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<RopeParams>();
  const auto present = [&](uint32_t i) { return command.command().operands[i].present(); };
  command.require(
      params.n_rows > 0 && params.n_heads > 0 && params.n_kv_heads > 0 && params.head_dim > 0,
      "a size is zero");
  command.require(2 * uint64_t{params.n_pairs} <= params.head_dim, "more pairs than a head has");
  command.require(params.dtype <= kDTypeBF16, "qkv must be f32, f16 or bf16");
  const uint64_t n_heads = uint64_t{params.n_heads} + 2 * uint64_t{params.n_kv_heads};
  command.require_bytes(
      0, (uint64_t{params.n_rows - 1} * params.row_stride + n_heads * params.head_dim) *
             (params.dtype == kDTypeF32 ? 4 : 2));
  command.require_bytes(1, uint64_t{params.n_rows} * sizeof(Row));
  command.require(present(2) == (params.n_pairs > 0), "angles where there are pairs");
  command.require_bytes(2, uint64_t{params.n_pairs} * 8, true);
  command.require_bytes(3, uint64_t{params.head_dim} * 4, true);
  command.require_bytes(4, uint64_t{params.head_dim} * 4, true);
  if (present(5) || present(6) || present(7)) {
    command.require(params.page_rows > 0 && params.pages_per_sequence > 0, "a size is zero");
    command.require_kv_dtypes(params.kv_dtypes, params.head_dim);
    command.require_bytes(5, 1);
    command.require_bytes(6, 1);
    command.require_bytes(7, uint64_t{params.pages_per_sequence} * 4);
  }
  prepared.run = HWY_DYNAMIC_DISPATCH(run_rope);
  prepared.scratch_bytes = uint64_t{params.head_dim} * sizeof(float);
  prepared.rows_per_task =
      static_cast<uint32_t>(std::max<uint64_t>(1, 16384 / (n_heads * params.head_dim)));
  prepared.n_tasks = (params.n_rows + prepared.rows_per_task - 1) / prepared.rows_per_task;
}

}  // namespace vesper
#endif

#endif

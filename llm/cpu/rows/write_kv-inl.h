// write_kv: copies keys and values to their pages, one or a few rows per task.
// Part of row_kernels.cc.
#if defined(VESPER_LLM_CPU_WRITE_KV_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_WRITE_KV_INL_H_
#undef VESPER_LLM_CPU_WRITE_KV_INL_H_
#else
#define VESPER_LLM_CPU_WRITE_KV_INL_H_
#endif

#include <algorithm>

#include "llm/cpu/kv_rows-inl.h"
#include "llm/cpu/numbers-inl.h"
#include "llm/cpu/prepared_command.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

void run_write_kv(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<WriteKvParams>();
  const uint32_t first = task * command.rows_per_task;
  const uint32_t end = std::min(first + command.rows_per_task, params.n_rows);
  const Row* rows = command.operand<const Row>(4);
  const int32_t* page_table = command.operand<const int32_t>(5);
  for (uint32_t r = first; r < end; ++r) {
    const bool by_table = params.rows_per_sequence == 0;
    const int sequence =
        by_table ? rows[r].sequence : static_cast<int>(r / params.rows_per_sequence);
    if (sequence < 0) continue;
    const auto position =
        by_table ? static_cast<uint32_t>(rows[r].position) : r % params.rows_per_sequence;
    const int32_t page = page_table[static_cast<size_t>(sequence) * params.pages_per_sequence +
                                    position / params.page_rows];
    for (uint32_t h = 0; h < params.n_kv_heads; ++h) {
      const size_t from = size_t{r} * params.in_row_stride + size_t{h} * params.head_dim;
      for (const bool is_value : {false, true}) {
        with_type(params.in_dtype, static_cast<const void*>(command.operands[is_value ? 3 : 2]),
                  [&](const auto* in) {
                    store_kv_row(
                        is_value ? value_dtype(params.kv_dtypes) : key_dtype(params.kv_dtypes),
                        command.operands[is_value ? 1 : 0], params.page_rows, params.head_dim,
                        static_cast<size_t>(page) * params.n_kv_heads + h,
                        position % params.page_rows, in + from);
                  });
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_write_kv);

void prepare_write_kv(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<WriteKvParams>();
  command.require(params.n_rows > 0 && params.n_kv_heads > 0 && params.head_dim > 0 &&
                      params.page_rows > 0 && params.pages_per_sequence > 0,
                  "a size is zero");
  command.require(params.in_dtype <= kDTypeBF16, "in must be f32, f16 or bf16");
  command.require_kv_dtypes(params.kv_dtypes, params.head_dim);
  const uint64_t in_bytes = (uint64_t{params.n_rows - 1} * params.in_row_stride +
                             uint64_t{params.n_kv_heads} * params.head_dim) *
                            (params.in_dtype == kDTypeF32 ? 4 : 2);
  command.require_bytes(0, 1);
  command.require_bytes(1, 1);
  command.require_bytes(2, in_bytes);
  command.require_bytes(3, in_bytes);
  uint64_t n_sequences = 1;
  if (params.rows_per_sequence == 0) {
    command.require_bytes(4, uint64_t{params.n_rows} * sizeof(Row));
  } else {
    n_sequences = (params.n_rows - 1) / params.rows_per_sequence + 1;
  }
  command.require_bytes(5, n_sequences * params.pages_per_sequence * 4);
  prepared.run = HWY_DYNAMIC_DISPATCH(run_write_kv);
  prepared.rows_per_task = std::max(1u, 16384 / (params.n_kv_heads * params.head_dim));
  prepared.n_tasks = (params.n_rows + prepared.rows_per_task - 1) / prepared.rows_per_task;
}

}  // namespace vesper
#endif

#endif

// combine_experts: a task is a row, or a part of a long one.
// Part of row_kernels.cc.
#if defined(VESPER_LLM_CPU_COMBINE_EXPERTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_COMBINE_EXPERTS_INL_H_
#undef VESPER_LLM_CPU_COMBINE_EXPERTS_INL_H_
#else
#define VESPER_LLM_CPU_COMBINE_EXPERTS_INL_H_
#endif

#include <algorithm>

#include "llm/cpu/numbers-inl.h"
#include "llm/cpu/prepared_command.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

void run_combine_experts(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const F32 d;
  const auto& params = command.params_as<CombineExpertsParams>();
  const uint32_t row = task / command.tasks_per_row_block;
  const uint32_t first = task % command.tasks_per_row_block * command.columns_per_task;
  const uint32_t end = std::min(first + command.columns_per_task, params.d);
  float* const x = command.operand<float>(0) + size_t{row} * params.d;
  const size_t slot = size_t{row} * params.n_used;
  const float* const in = command.operand<const float>(1) + slot * params.d;
  const float* shared = command.operand<const float>(3);
  const float* const weights = command.operand<const float>(2) + slot + (shared ? row : 0);
  if (shared) shared += size_t{row} * params.d;
  uint32_t i = first;
  for (; i + kLanes <= end; i += kLanes) {
    VF32 sum = hn::LoadU(d, x + i);
    for (uint32_t c = 0; c < params.n_used; ++c) {
      sum = hn::MulAdd(hn::Set(d, weights[c]), hn::LoadU(d, in + size_t{c} * params.d + i), sum);
    }
    if (shared) sum = hn::MulAdd(hn::Set(d, weights[params.n_used]), hn::LoadU(d, shared + i), sum);
    hn::StoreU(sum, d, x + i);
  }
  for (; i < end; ++i) {
    for (uint32_t c = 0; c < params.n_used; ++c) x[i] += weights[c] * in[size_t{c} * params.d + i];
    if (shared) x[i] += weights[params.n_used] * shared[i];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_combine_experts);

void prepare_combine_experts(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<CombineExpertsParams>();
  command.require(params.n_rows > 0 && params.n_used > 0 && params.d > 0, "a size is zero");
  const uint64_t n_slots = uint64_t{params.n_rows} * params.n_used;
  command.require_bytes(0, uint64_t{params.n_rows} * params.d * 4);
  command.require_bytes(1, n_slots * params.d * 4);
  const bool has_shared = command.command().operands[3].present();
  command.require_bytes(2, (n_slots + (has_shared ? params.n_rows : 0)) * 4);
  command.require_bytes(3, uint64_t{params.n_rows} * params.d * 4, true);
  prepared.run = HWY_DYNAMIC_DISPATCH(run_combine_experts);
  constexpr uint32_t kColumnsPerTask = 1024;
  prepared.columns_per_task = std::min(params.d, kColumnsPerTask);
  prepared.tasks_per_row_block =
      (params.d + prepared.columns_per_task - 1) / prepared.columns_per_task;
  prepared.n_tasks = params.n_rows * prepared.tasks_per_row_block;
}

}  // namespace vesper
#endif

#endif

// gated_activation: elementwise; a task is a few rows, or a part of a long one.
// Part of row_kernels.cc.
#if defined(VESPER_LLM_CPU_GATED_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_GATED_ACTIVATION_INL_H_
#undef VESPER_LLM_CPU_GATED_ACTIVATION_INL_H_
#else
#define VESPER_LLM_CPU_GATED_ACTIVATION_INL_H_
#endif

#include <algorithm>

#include "llm/cpu/numbers-inl.h"
#include "llm/cpu/prepared_command.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// kActivationClampedSwiGlu.
HWY_INLINE VF32 clamped_swiglu(VF32 gate, VF32 up, VF32 limit) {
  const F32 d;
  gate = hn::Min(gate, limit);
  up = hn::Max(hn::Min(up, limit), hn::Neg(limit));
  const VF32 swish = hn::Mul(gate, sigmoid(hn::Mul(hn::Set(d, 1.702f), gate)));
  return hn::MulAdd(swish, up, swish);
}

template <class In, class Out>
HWY_NOINLINE void gate_numbers(const GatedActivationParams& params, const In* gate, const In* up,
                               uint32_t n, Out* out) {
  const F32 d;
  const VF32 limit = hn::Set(d, params.limit);
  const auto gated = [&](VF32 g, VF32 u) HWY_ATTR {
    return params.activation == kActivationClampedSwiGlu
               ? clamped_swiglu(g, u, limit)
               : hn::Mul(activate(params.activation, g), u);
  };
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store_f32(gated(load_f32(gate + i), load_f32(up + i)), out + i);
  }
  for (; i < n; ++i) {
    const VF32 g = hn::Set(d, to_f32(gate[i])), u = hn::Set(d, to_f32(up[i]));
    put_f32(hn::GetLane(gated(g, u)), out + i);
  }
}

void run_gated_activation(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<GatedActivationParams>();
  const uint32_t first_row = task / command.tasks_per_row_block * command.rows_per_task;
  const uint32_t end_row = std::min(first_row + command.rows_per_task, params.n_rows);
  const uint32_t first = task % command.tasks_per_row_block * command.columns_per_task;
  const uint32_t n = std::min(command.columns_per_task, params.d - first);
  for (uint32_t r = first_row; r < end_row; ++r) {
    const size_t from = size_t{r} * params.d * 2 + first;
    with_type(params.in_dtype, static_cast<const void*>(command.operands[1]), [&](const auto* in) {
      with_type(params.out_dtype, command.operands[0], [&](auto* out) {
        gate_numbers(params, in + from, in + from + params.d, n,
                     out + size_t{r} * params.d + first);
      });
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_gated_activation);

void prepare_gated_activation(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<GatedActivationParams>();
  command.require(params.n_rows > 0 && params.d > 0, "a size is zero");
  command.require(
      params.activation <= kActivationSigmoid || params.activation == kActivationClampedSwiGlu,
      "unknown activation");
  command.require(params.in_dtype <= kDTypeBF16 && params.out_dtype <= kDTypeBF16,
                  "in and out must be f32, f16 or bf16");
  const uint64_t n = uint64_t{params.n_rows} * params.d;
  command.require_bytes(0, n * (params.out_dtype == kDTypeF32 ? 4 : 2));
  command.require_bytes(1, 2 * n * (params.in_dtype == kDTypeF32 ? 4 : 2));
  prepared.run = HWY_DYNAMIC_DISPATCH(run_gated_activation);
  constexpr uint32_t kNumbersPerTask = 2048;
  prepared.columns_per_task = std::min(params.d, kNumbersPerTask);
  prepared.tasks_per_row_block =
      (params.d + prepared.columns_per_task - 1) / prepared.columns_per_task;
  prepared.rows_per_task = std::max(1u, kNumbersPerTask / params.d);
  prepared.n_tasks = (params.n_rows + prepared.rows_per_task - 1) / prepared.rows_per_task *
                     prepared.tasks_per_row_block;
}

}  // namespace vesper
#endif

#endif

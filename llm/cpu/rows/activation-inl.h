// activation: an elementwise function.
// Part of row_kernels.cc.
#if defined(VESPER_LLM_CPU_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_ACTIVATION_INL_H_
#undef VESPER_LLM_CPU_ACTIVATION_INL_H_
#else
#define VESPER_LLM_CPU_ACTIVATION_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "llm/cpu/numbers-inl.h"
#include "llm/cpu/prepared_command.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

void run_activation(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<ActivationParams>();
  const F32 d;
  const auto result = [&](VF32 x) HWY_ATTR {
    if (params.activation != kActivationSoftCap) return activate(params.activation, x);
    const VF32 limit = hn::Set(d, params.limit);
    return hn::Mul(limit, hn::Tanh(d, hn::Div(x, limit)));
  };
  float* out = command.operand<float>(0);
  const float* in = command.operand<const float>(1);
  size_t i = size_t{task} * command.columns_per_task;
  const size_t end = std::min<size_t>(i + command.columns_per_task, params.n);
  for (; i + kLanes <= end; i += kLanes) {
    hn::StoreU(result(hn::LoadU(d, in + i)), d, out + i);
  }
  for (; i < end; ++i) out[i] = hn::GetLane(result(hn::Set(d, in[i])));
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_activation);

void prepare_activation(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<ActivationParams>();
  command.require(params.n > 0, "a size is zero");
  command.require(params.activation <= kActivationSoftCap, "unknown activation");
  command.require(params.activation != kActivationSoftCap || params.limit > 0, "a limit above 0");
  command.require_bytes(0, uint64_t{params.n} * sizeof(float));
  command.require_bytes(1, uint64_t{params.n} * sizeof(float));
  prepared.run = HWY_DYNAMIC_DISPATCH(run_activation);
  prepared.columns_per_task = 16384;
  prepared.n_tasks =
      params.n / prepared.columns_per_task + (params.n % prepared.columns_per_task != 0 ? 1 : 0);
}

}  // namespace vesper
#endif

#endif

// pool: one sequence per task.
// Part of row_kernels.cc.
#if defined(VESPER_LLM_CPU_POOL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_POOL_INL_H_
#undef VESPER_LLM_CPU_POOL_INL_H_
#else
#define VESPER_LLM_CPU_POOL_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "llm/cpu/numbers-inl.h"
#include "llm/cpu/prepared_command.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

void run_pool(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<PoolParams>();
  const uint32_t n = params.n_out;
  float* out = command.operand<float>(0) + size_t{task} * n;
  const float* in = command.operand<const float>(1);
  const uint32_t* starts = command.operand<const uint32_t>(2);
  uint32_t begin = starts[task], end = starts[task + 1];
  std::fill_n(out, n, 0.0f);
  if (begin >= end) return;
  if (params.kind == kPoolFirst) end = begin + 1;
  if (params.kind == kPoolLast) begin = end - 1;
  const F32 d;
  for (uint32_t r = begin; r < end; ++r) {
    const float* row = in + size_t{r} * params.d;
    uint32_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, out + i), hn::LoadU(d, row + i)), d, out + i);
    }
    for (; i < n; ++i) out[i] += row[i];
  }
  float scale = 1.0f / static_cast<float>(end - begin);
  if (params.normalize != 0) {
    double squares = 0.0;
    for (uint32_t i = 0; i < n; ++i) {
      const double value = out[i] * scale;
      squares += value * value;
    }
    scale /= std::max(static_cast<float>(std::sqrt(squares)), kPoolLeastLength);
  }
  for (uint32_t i = 0; i < n; ++i) out[i] *= scale;
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_pool);

void prepare_pool(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<PoolParams>();
  command.require(params.n_sequences > 0 && params.d > 0 && params.n_out > 0, "a size is zero");
  command.require(params.n_out <= params.d, "n_out must be at most d");
  command.require(params.kind <= kPoolLast, "unknown kind of pooling");
  command.require_bytes(0, uint64_t{params.n_sequences} * params.n_out * sizeof(float));
  command.require_bytes(1, uint64_t{params.d} * sizeof(float));
  command.require_bytes(2, (uint64_t{params.n_sequences} + 1) * sizeof(uint32_t));
  prepared.run = HWY_DYNAMIC_DISPATCH(run_pool);
  prepared.n_tasks = params.n_sequences;
}

}  // namespace vesper
#endif

#endif

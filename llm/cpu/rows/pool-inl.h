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
#include <cstddef>
#include <cstring>

#include "llm/cpu/numbers-inl.h"
#include "llm/cpu/prepared_command.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

void run_pool(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<PoolParams>();
  const uint32_t n = params.n_out;
  const size_t number_bytes = params.dtype == kDTypeF32 ? sizeof(float) : sizeof(uint16_t);
  std::byte* const vector = command.operand<std::byte>(0) + size_t{task} * n * number_bytes;
  const std::byte* const rows = command.operand<const std::byte>(1);
  const uint32_t* starts = command.operand<const uint32_t>(2);
  uint32_t begin = starts == nullptr ? task : starts[task];
  uint32_t end = starts == nullptr ? task + 1 : starts[task + 1];
  std::memset(vector, 0, n * number_bytes);
  if (begin >= end) return;
  if (params.kind == kPoolFirst) end = begin + 1;
  if (params.kind == kPoolLast) begin = end - 1;
  if (params.dtype != kDTypeF32) {
    std::memcpy(vector, rows + size_t{begin} * params.d * number_bytes, n * number_bytes);
    return;
  }
  float* const out = reinterpret_cast<float*>(vector);
  const float* const in = reinterpret_cast<const float*>(rows);
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
  command.require(params.dtype <= kDTypeBF16, "rows must be f32, f16 or bf16");
  command.require(params.dtype == kDTypeF32 || (params.kind != kPoolMean && params.normalize == 0),
                  "rows must be f32 to be added or normalized");
  const uint64_t number_bytes = params.dtype == kDTypeF32 ? sizeof(float) : sizeof(uint16_t);
  const bool has_starts = command.command().operands[2].present();
  command.require_bytes(0, uint64_t{params.n_sequences} * params.n_out * number_bytes);
  command.require_bytes(1,
                        (has_starts ? 1 : uint64_t{params.n_sequences}) * params.d * number_bytes);
  command.require_bytes(2, (uint64_t{params.n_sequences} + 1) * sizeof(uint32_t), true);
  prepared.run = HWY_DYNAMIC_DISPATCH(run_pool);
  prepared.n_tasks = params.n_sequences;
}

}  // namespace vesper
#endif

#endif

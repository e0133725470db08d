// magnitude: of complex rows, real parts then imaginary parts.
// Part of row_kernels.cc.
#if defined(VESPER_LLM_CPU_MAGNITUDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_MAGNITUDE_INL_H_
#undef VESPER_LLM_CPU_MAGNITUDE_INL_H_
#else
#define VESPER_LLM_CPU_MAGNITUDE_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "llm/cpu/numbers-inl.h"
#include "llm/cpu/prepared_command.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

void run_magnitude(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<MagnitudeParams>();
  const F32 d;
  const uint32_t n = params.n_bins, first = task * command.rows_per_task;
  const uint32_t end = std::min(first + command.rows_per_task, params.n_rows);
  for (uint32_t r = first; r < end; ++r) {
    const float* real = command.operand<const float>(1) + size_t{r} * 2 * n;
    const float* imaginary = real + n;
    float* out = command.operand<float>(0) +
                 size_t{r / params.rows_per_batch} * params.out_batch_stride +
                 size_t{r % params.rows_per_batch} * n;
    uint32_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const VF32 x = hn::LoadU(d, real + i), y = hn::LoadU(d, imaginary + i);
      hn::StoreU(hn::Sqrt(hn::MulAdd(x, x, hn::Mul(y, y))), d, out + i);
    }
    for (; i < n; ++i) out[i] = std::sqrt(real[i] * real[i] + imaginary[i] * imaginary[i]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_magnitude);

void prepare_magnitude(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<MagnitudeParams>();
  command.require(params.n_rows > 0 && params.n_bins > 0 && params.rows_per_batch > 0,
                  "a size is zero");
  const uint64_t n_batches = (params.n_rows - 1) / params.rows_per_batch;
  const uint64_t last = n_batches > 0 ? params.rows_per_batch : params.n_rows;
  command.require_bytes(
      0, (n_batches * params.out_batch_stride + last * params.n_bins) * sizeof(float));
  command.require_bytes(1, uint64_t{params.n_rows} * 2 * params.n_bins * sizeof(float));
  prepared.run = HWY_DYNAMIC_DISPATCH(run_magnitude);
  prepared.rows_per_task = std::max(1u, 16384 / params.n_bins);
  prepared.n_tasks = (params.n_rows + prepared.rows_per_task - 1) / prepared.rows_per_task;
}

}  // namespace vesper
#endif

#endif

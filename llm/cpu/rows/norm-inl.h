// norm: each row is independent, with f32 sums over fixed lanes, so a row's result does not depend
// on other rows.
// Part of row_kernels.cc.
#if defined(VESPER_LLM_CPU_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_NORM_INL_H_
#undef VESPER_LLM_CPU_NORM_INL_H_
#else
#define VESPER_LLM_CPU_NORM_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "llm/cpu/numbers-inl.h"
#include "llm/cpu/prepared_command.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// Sum over i of term(vector at i); `tail` handles the elements of an incomplete vector.
template <class Term, class Tail>
HWY_INLINE float sum_terms(uint32_t n, const Term& term, const Tail& tail) {
  const F32 d;
  // Four sums, because rounding errors grow with the length of a sum.
  VF32 sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  uint32_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (uint32_t j = 0; j < 4; ++j) sums[j] = hn::Add(sums[j], term(i + j * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) sums[0] = hn::Add(sums[0], term(i));
  const VF32 sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  float rest = 0.0f;
  for (; i < n; ++i) rest += tail(i);
  return hn::GetLane(hn::SumOfLanes(d, sum)) + rest;
}

template <class Out>
HWY_INLINE void norm_row(const NormParams& params, const float* in, const float* weight,
                         const float* bias, const float* residual, Out* out) {
  const F32 d;
  const uint32_t n = params.d;
  float mean = 0.0f;
  if (params.kind == kNormLayer) {
    mean = sum_terms(
               n, [&](uint32_t i) HWY_ATTR { return hn::LoadU(d, in + i); },
               [&](uint32_t i) { return in[i]; }) /
           static_cast<float>(n);
  }
  // Around the mean, not from the sum of squares: the mean of a row may be far above its spread.
  const VF32 means = hn::Set(d, mean);
  const float variance = sum_terms(
                             n,
                             [&](uint32_t i) HWY_ATTR {
                               const VF32 off = hn::Sub(hn::LoadU(d, in + i), means);
                               return hn::Mul(off, off);
                             },
                             [&](uint32_t i) { return (in[i] - mean) * (in[i] - mean); }) /
                         static_cast<float>(n);
  const float factor = 1.0f / std::sqrt(variance + params.epsilon);
  const VF32 factors = hn::Set(d, factor);
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    VF32 value = hn::Mul(hn::Sub(hn::LoadU(d, in + i), means), factors);
    value = hn::Mul(value, hn::LoadU(d, weight + i));
    if (bias != nullptr) value = hn::Add(value, hn::LoadU(d, bias + i));
    if (residual != nullptr) value = hn::Add(value, hn::LoadU(d, residual + i));
    store_f32(value, out + i);
  }
  for (; i < n; ++i) {
    float value = (in[i] - mean) * factor * weight[i];
    if (bias != nullptr) value += bias[i];
    if (residual != nullptr) value += residual[i];
    put_f32(value, out + i);
  }
}

void run_norm(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& params = command.params_as<NormParams>();
  const uint32_t first = task * command.rows_per_task;
  const uint32_t end = std::min(first + command.rows_per_task, params.n_rows);
  const uint32_t* index = command.operand<const uint32_t>(4);
  const float* residual = command.operand<const float>(5);
  for (uint32_t r = first; r < end; ++r) {
    const size_t from = index == nullptr ? r : index[r];
    const size_t begin = from * params.row_stride;
    auto* converted = reinterpret_cast<float*>(scratch.data);
    const bool is_f32 = params.in_dtype == kDTypeF32;
    if (!is_f32) read_numbers(params.in_dtype, command.operands[1], begin, params.d, converted);
    const float* in = is_f32 ? command.operand<const float>(1) + begin : converted;
    with_type(params.out_dtype, command.operands[0], [&](auto* out) {
      norm_row(params, in, command.operand<const float>(2), command.operand<const float>(3),
               residual == nullptr ? nullptr : residual + size_t{r} * params.d,
               out + size_t{r} * params.row_stride);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_norm);

void prepare_norm(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<NormParams>();
  command.require(params.n_rows > 0 && params.d > 0, "a size is zero");
  command.require(params.out_dtype <= kDTypeBF16, "out must be f32, f16 or bf16");
  command.require(params.kind == kNormLayer || params.kind == kNormRms, "unknown kind of norm");
  const bool indexed = command.command().operands[4].present();
  command.require(params.in_dtype <= kDTypeBF16, "in must be f32, f16 or bf16");
  command.require(params.row_stride >= params.d, "rows overlap");
  const uint64_t n = uint64_t{params.n_rows} * params.d;
  const uint64_t strided = uint64_t{params.n_rows - 1} * params.row_stride + params.d;
  command.require_bytes(0, strided * (params.out_dtype == kDTypeF32 ? 4 : 2));
  command.require_bytes(
      1, (indexed ? uint64_t{params.d} : strided) * (params.in_dtype == kDTypeF32 ? 4 : 2));
  command.require_bytes(2, uint64_t{params.d} * 4);
  command.require_bytes(3, uint64_t{params.d} * 4, true);
  command.require_bytes(4, uint64_t{params.n_rows} * 4, true);
  command.require_bytes(5, n * 4, true);
  prepared.run = HWY_DYNAMIC_DISPATCH(run_norm);
  if (params.in_dtype != kDTypeF32) prepared.scratch_bytes = params.d * sizeof(float);
  // Rows of a few microseconds together: a task costs about 0.1 us.
  prepared.rows_per_task = std::max(1u, 16384 / params.d);
  prepared.n_tasks = (params.n_rows + prepared.rows_per_task - 1) / prepared.rows_per_task;
}

}  // namespace vesper
#endif

#endif

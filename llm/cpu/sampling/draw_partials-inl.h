// draw_partials: a task is a chunk of a sequence's logits.
// Part of row_kernels.cc.
#if defined(VESPER_LLM_CPU_DRAW_PARTIALS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_DRAW_PARTIALS_INL_H_
#undef VESPER_LLM_CPU_DRAW_PARTIALS_INL_H_
#else
#define VESPER_LLM_CPU_DRAW_PARTIALS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "llm/cpu/numbers-inl.h"
#include "llm/cpu/prepared_command.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// Sum of exp(logit - greatest), over fixed lanes.
HWY_NOINLINE float sum_exponentials(const float* logits, uint32_t n, float greatest) {
  const F32 d;
  VF32 sum = hn::Zero(d);
  const VF32 most = hn::Set(d, greatest);
  // Below -100 nothing is left of the number, and exp stays clear of subnormals.
  const VF32 least = hn::Set(d, -100.0f);
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const VF32 off = hn::Sub(hn::LoadU(d, logits + i), most);
    sum = hn::Add(sum, hn::IfThenElseZero(hn::Ge(off, least), hn::Exp(d, hn::Max(off, least))));
  }
  float rest = 0;
  for (; i < n; ++i) rest += std::exp(logits[i] - greatest);
  return hn::GetLane(hn::SumOfLanes(d, sum)) + rest;
}

void run_draw_partials(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<DrawParams>();
  const uint32_t s = task / params.n_chunks, first = task % params.n_chunks * params.chunk;
  const uint32_t n = std::min(params.chunk, params.n_vocab - first);
  const GenerationState& state = command.operand<const GenerationState>(2)[s];
  if (state.finished) return;
  const float* logits = command.operand<const float>(1) + size_t{s} * params.n_vocab + first;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  DrawPartial partial{-kInfinity, 0, -kInfinity, -kInfinity, UINT32_MAX};
  for (uint32_t i = 0; i < n; ++i) partial.greatest = std::max(partial.greatest, logits[i]);
  const uint32_t base = draw_base(state.seed, state.n_drawn);
  for (uint32_t i = 0; i < n; ++i) {
    const float logit = logits[i];
    if (!(logit >= state.lowest && logit <= state.highest)) continue;
    float key = logit;
    if (state.temperature > 0) {
      const uint32_t bits = mix_bits(base + (first + i) * kDrawStride) >> 9;
      const float uniform = (static_cast<float>(bits) + 0.5f) / 8388608.0f;
      key = logit / state.temperature - std::log(-std::log(uniform));
    }
    if (key > partial.key) {
      partial.key = key;
      partial.logit = logit;
      partial.token = first + i;
    }
  }
  if (partial.greatest > -kInfinity) {
    partial.sum = sum_exponentials(logits, n, partial.greatest);
  }
  command.operand<DrawPartial>(0)[size_t{s} * params.n_chunks + task % params.n_chunks] = partial;
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_draw_partials);

void prepare_draw_partials(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<DrawParams>();
  command.require(params.n_sequences > 0 && params.n_vocab > 0 && params.chunk > 0,
                  "a size is zero");
  command.require(params.n_chunks == (params.n_vocab + params.chunk - 1) / params.chunk,
                  "chunks must cover the vocabulary");
  command.require_bytes(0, uint64_t{params.n_sequences} * params.n_chunks * sizeof(DrawPartial));
  command.require_bytes(1, uint64_t{params.n_sequences} * params.n_vocab * 4);
  command.require_bytes(2, params.n_sequences * sizeof(GenerationState));
  prepared.run = HWY_DYNAMIC_DISPATCH(run_draw_partials);
  prepared.n_tasks = params.n_sequences * params.n_chunks;
}

}  // namespace vesper
#endif

#endif

// sample_partials: maximum, sum of exponentials and best token of a chunk of the vocabulary. A task
// is some chunks of a sequence.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

#include "llm/cpu/prepared_command.h"
#include "llm/cpu/sampling/merged_tokens.h"
#include "llm/cpu/sampling/token_rules.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/sampling/sample_partials.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"
#include "llm/cpu/numbers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// The token with the highest values[i] / temperature + Gumbel noise among the ids from `first` on
// that the filters keep. `values` has `padded` elements, a multiple of the lanes.
HWY_INLINE void sample(const SequenceState& state, bool has_filters, uint32_t first,
                       const float* values, uint32_t padded, TokenPartial& result) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  const hn::RebindToSigned<F32> di;
  const auto mix = [&](auto x) HWY_ATTR {
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(du, 0x7feb352du));
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(du, 0x846ca68bu));
    return hn::Xor(x, hn::ShiftRight<16>(x));
  };
  const auto base = hn::Set(du, noise_base(state.seed, state.n_sampled));
  const VF32 sharpness = hn::Set(d, 1.0f / state.temperature);
  const VF32 lowest = hn::Set(d, state.lowest), highest = hn::Set(d, state.highest);
  VF32 best = hn::Set(d, -INFINITY);
  auto best_at = hn::Zero(du);
  auto at = hn::Iota(du, 0);
  for (uint32_t i = 0; i < padded; i += kLanes) {
    const auto id = hn::Add(at, hn::Set(du, first));
    const auto bits = mix(hn::Add(base, hn::Mul(id, hn::Set(du, kNoiseStride))));
    const VF32 uniform = hn::Mul(
        hn::Add(hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<9>(bits))), hn::Set(d, 0.5f)),
        hn::Set(d, 1.0f / 8388608.0f));
    const VF32 noise = hn::Neg(hn::Log(d, hn::Neg(hn::Log(d, uniform))));
    const VF32 value = hn::LoadU(d, values + i);
    const VF32 key = hn::MulAdd(value, sharpness, noise);
    auto better = hn::Gt(key, best);
    if (has_filters) {
      better = hn::And(better, hn::And(hn::Ge(value, lowest), hn::Le(value, highest)));
    }
    best = hn::IfThenElse(better, key, best);
    best_at = hn::IfThenElse(hn::RebindMask(du, better), at, best_at);
    at = hn::Add(at, hn::Set(du, kLanes));
  }
  result.key = hn::GetLane(hn::MaxOfLanes(d, best));
  if (!(result.key > -INFINITY)) return;
  float keys[kLanes];
  uint32_t indices[kLanes];
  hn::StoreU(best, d, keys);
  hn::StoreU(best_at, du, indices);
  uint32_t index = std::numeric_limits<uint32_t>::max();
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if (keys[lane] == result.key) index = std::min(index, indices[lane]);
  }
  result.token = first + index;
  result.logit = values[index];
}

// The greatest of values[i], of ids from `first` on. `values` has `padded` elements; `most` is the
// greatest of each lane.
HWY_INLINE void find_candidates(uint32_t first, const float* values, uint32_t padded, VF32 most,
                                std::span<TokenCandidate> candidates) {
  const F32 d;
  TokenCandidate& least = candidates.back();
  // At least as many values as candidates are not below this bound.
  float bound = -INFINITY;
  if (candidates.size() <= kLanes) {
    float lanes[kLanes];
    hn::StoreU(most, d, lanes);
    float* const last = lanes + candidates.size() - 1;
    std::nth_element(lanes, last, lanes + kLanes, std::greater<>());
    bound = *last;
  }
  for (uint32_t block = 0; block < padded; block += kLanes) {
    if (hn::AllFalse(d, hn::Ge(hn::LoadU(d, values + block), hn::Set(d, bound)))) continue;
    for (uint32_t i = block; i < block + kLanes; ++i) {
      // Ids ascend, so the lowest of equal ones stays first.
      if (values[i] > least.logit) insert_candidate(candidates, {values[i], first + i});
    }
    bound = std::max(bound, least.logit);
  }
}

// The ids [ids.first, ids.end); their allowed logits are in `values`, padded to full lanes.
// `candidates` may be empty.
HWY_INLINE TokenPartial reduce(const SequenceState& state, bool has_filters, IdRange ids,
                               float* values, std::span<TokenCandidate> candidates) {
  const F32 d;
  const uint32_t n = ids.end - ids.first, padded = (n + kLanes - 1) / kLanes * kLanes;
  std::fill(values + n, values + padded, -INFINITY);
  TokenPartial result = kNothing;
  VF32 most = hn::Set(d, -INFINITY);
  for (uint32_t i = 0; i < padded; i += kLanes) most = hn::Max(hn::LoadU(d, values + i), most);
  const VF32 largest = hn::MaxOfLanes(d, most);
  result.max = hn::GetLane(largest);
  if (!(result.max > -INFINITY)) return result;
  VF32 sum = hn::Zero(d);
  // exp below -100 would be subnormal; it counts as 0.
  const VF32 least = hn::Set(d, -100.0f);
  for (uint32_t i = 0; i < padded; i += kLanes) {
    const VF32 off = hn::Sub(hn::LoadU(d, values + i), largest);
    const VF32 e = hn::Exp(d, hn::Max(off, least));
    sum = hn::Add(sum, hn::IfThenElseZero(hn::Ge(off, least), e));
  }
  result.sum = hn::GetLane(hn::SumOfLanes(d, sum));
  if (!candidates.empty()) {
    find_candidates(ids.first, values, padded, most, candidates);
    result.key = result.logit = result.max;
    result.token = candidates.front().token;
    return result;
  }
  if (state.temperature > 0.0f) {
    sample(state, has_filters, ids.first, values, padded, result);
    return result;
  }
  result.key = result.logit = result.max;
  result.token =
      ids.first + static_cast<uint32_t>(std::find(values, values + n, result.max) - values);
  return result;
}

void run_sample_partials(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& params = command.params_as<SamplingParams>();
  const uint32_t sequence = task / command.tasks_per_row_block;
  const SequenceState& state = command.operand<const SequenceState>(2)[sequence];
  if (state.finished) return;
  const float* logits = command.operand<const float>(1) + size_t{sequence} * params.row_stride;
  const auto* suppressed = command.operand<const uint32_t>(3);
  const AllowedIds allowed = allowed_ids(params, state, suppressed != nullptr);
  const uint32_t* const mask = mask_of(command.operand<const uint32_t>(5), params, state, sequence);
  auto* const values = reinterpret_cast<float*>(scratch.data);
  const uint32_t n_text = n_text_chunks(params.timestamp_begin, params.chunk);
  const uint32_t first_chunk = task % command.tasks_per_row_block * command.columns_per_task;
  const uint32_t end_chunk = std::min(first_chunk + command.columns_per_task, params.n_chunks);
  for (uint32_t chunk = first_chunk; chunk < end_chunk; ++chunk) {
    const bool is_text = chunk < n_text;
    const uint32_t first =
        is_text ? chunk * params.chunk
                : (chunk - n_text + params.timestamp_begin / params.chunk) * params.chunk;
    const IdRange ids =
        (is_text ? allowed.text : allowed.timestamp).within({first, first + params.chunk});
    const size_t index = size_t{sequence} * params.n_chunks + chunk;
    std::span<TokenCandidate> candidates;
    if (auto* lists = command.operand<TokenCandidate>(4); lists && state.is_beam) {
      candidates = {lists + index * params.n_candidates, params.n_candidates};
      std::fill(candidates.begin(), candidates.end(), kNoCandidate);
    }
    TokenPartial& partial = command.operand<TokenPartial>(0)[index];
    partial = kNothing;
    if (ids.first >= ids.end) continue;
    copy_allowed(logits, ids, suppressed, allowed, values);
    if (mask != nullptr) apply_mask(mask, ids, values);
    partial = reduce(state, params.has_filters != 0, ids, values, candidates);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_sample_partials);

void prepare_sample_partials(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<SamplingParams>();
  require_sampling_params(params, command);
  command.require_bytes(0, uint64_t{params.n_sequences} * params.n_chunks * sizeof(TokenPartial));
  command.require_bytes(
      1, (uint64_t{params.n_sequences - 1} * params.row_stride + params.n_vocab) * 4);
  command.require_bytes(2, uint64_t{params.n_sequences} * sizeof(SequenceState));
  const uint64_t mask_bytes = (uint64_t{params.n_vocab} + 31) / 32 * 4;
  command.require_bytes(3, mask_bytes, true);
  command.require_bytes(5, params.n_sequences * mask_bytes, true);
  command.require(params.n_candidates <= kMostCandidates, "too many candidates");
  command.require_bytes(
      4,
      uint64_t{params.n_sequences} * params.n_chunks * params.n_candidates * sizeof(TokenCandidate),
      params.n_candidates == 0);
  // A few thousand ids per task: about two microseconds.
  prepared.columns_per_task = std::max(1u, 4096 / params.chunk);
  prepared.tasks_per_row_block =
      (params.n_chunks + prepared.columns_per_task - 1) / prepared.columns_per_task;
  prepared.n_tasks = params.n_sequences * prepared.tasks_per_row_block;
  constexpr size_t kMostLanes = 16;
  prepared.scratch_bytes =
      sizeof(float) * (size_t{std::min(params.chunk, params.n_vocab)} + kMostLanes);
  prepared.run = HWY_DYNAMIC_DISPATCH(run_sample_partials);
}

}  // namespace vesper
#endif

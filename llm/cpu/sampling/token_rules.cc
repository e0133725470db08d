// token_partials and token_choose: the reference's token rules (openai-whisper, decoding.py:
// SuppressTokens, SuppressBlank, ApplyTimestampRules, GreedyDecoder), and no end while speech is
// known to go on, over device state.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

#include "llm/cpu/prepared_command.h"
#include "llm/cpu/sampling/merged_tokens.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/sampling/token_rules.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway demands.
#include "hwy/highway.h"
#include "llm/cpu/numbers-inl.h"

#ifndef VESPER_LLM_CPU_TOKEN_RULES_RANGES_
#define VESPER_LLM_CPU_TOKEN_RULES_RANGES_
namespace vesper {

// Ids [first, end).
struct IdRange {
  uint32_t first, end;
};

// The ids that the state of a sequence leaves: all other rules take single ids from these.
struct AllowedIds {
  IdRange text;       // below timestamp_begin
  IdRange timestamp;  // from timestamp_begin on
  bool blank, end_of_text;
};

inline AllowedIds allowed_ids(const TokenParams& params, const SequenceState& state) {
  AllowedIds allowed{{0, std::min(params.timestamp_begin, params.n_vocab)},
                     {params.timestamp_begin, params.n_vocab},
                     state.n_sampled > 0,
                     state.n_sampled > 0};
  if (!state.timestamps) {
    allowed.timestamp = {0, 0};
    return allowed;
  }
  const bool last = state.n_sampled >= 1 && state.last_was_timestamp;
  const bool penultimate = state.n_sampled < 2 || state.penultimate_was_timestamp;
  if (last && penultimate) {
    allowed.timestamp = {0, 0};  // a pair is complete: text follows
  } else if (last) {
    allowed.text.first = params.end_of_text;  // half a pair: its other half, or the end
  }
  if (last && state.last_timestamp < state.speech_end) allowed.end_of_text = false;
  if (state.last_timestamp != 0) {
    // The other half of a pair may repeat the time; else time goes on.
    const uint32_t least = last && !penultimate ? state.last_timestamp : state.last_timestamp + 1;
    allowed.timestamp.first = std::max(allowed.timestamp.first, least);
  }
  if (state.n_sampled == 0) {
    allowed.text = {0, 0};
    allowed.timestamp.end = std::min(allowed.timestamp.end, state.max_initial_timestamp + 1);
  }
  return allowed;
}

}  // namespace vesper
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

struct Reduced {
  float max = -INFINITY, sum = 0.0f;
  float key = -INFINITY, logit = -INFINITY;
  uint32_t token = std::numeric_limits<uint32_t>::max();
};

// The greatest of values[i] / temperature + Gumbel noise, of ids from `first` on. `values` has
// `padded` numbers, a multiple of the lanes.
HWY_INLINE void draw(const SequenceState& state, uint32_t first, const float* values,
                     uint32_t padded, Reduced& result) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  const hn::RebindToSigned<F32> di;
  const auto mix = [&](auto x) HWY_ATTR {
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(du, 0x7feb352du));
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(du, 0x846ca68bu));
    return hn::Xor(x, hn::ShiftRight<16>(x));
  };
  const auto base = hn::Set(du, draw_base(state.seed, state.n_sampled));
  const VF32 sharpness = hn::Set(d, 1.0f / state.temperature);
  VF32 best = hn::Set(d, -INFINITY);
  auto best_at = hn::Zero(du);
  auto at = hn::Iota(du, 0);
  for (uint32_t i = 0; i < padded; i += kLanes) {
    const auto id = hn::Add(at, hn::Set(du, first));
    const auto bits = mix(hn::Add(base, hn::Mul(id, hn::Set(du, kDrawStride))));
    const VF32 uniform = hn::Mul(
        hn::Add(hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<9>(bits))), hn::Set(d, 0.5f)),
        hn::Set(d, 1.0f / 8388608.0f));
    const VF32 noise = hn::Neg(hn::Log(d, hn::Neg(hn::Log(d, uniform))));
    const VF32 key = hn::MulAdd(hn::LoadU(d, values + i), sharpness, noise);
    const auto better = hn::Gt(key, best);
    best = hn::IfThenElse(better, key, best);
    best_at = hn::IfThenElse(hn::RebindMask(du, better), at, best_at);
    at = hn::Add(at, hn::Set(du, kLanes));
  }
  result.key = hn::GetLane(hn::MaxOfLanes(d, best));
  if (!(result.key > -INFINITY)) return;
  float keys[kLanes];
  uint32_t places[kLanes];
  hn::StoreU(best, d, keys);
  hn::StoreU(best_at, du, places);
  uint32_t place = std::numeric_limits<uint32_t>::max();
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if (keys[lane] == result.key) place = std::min(place, places[lane]);
  }
  result.token = first + place;
  result.logit = values[place];
}

// The greatest of values[i], of ids from `first` on; `values` has `padded` numbers, `most` the
// greatest of each lane.
HWY_INLINE void find_candidates(uint32_t first, const float* values, uint32_t padded, VF32 most,
                                std::span<TokenCandidate> candidates) {
  const F32 d;
  TokenCandidate& least = candidates.back();
  // As many lanes as there are candidates have a number that is no less: none below is wanted.
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
      // Ids rise, so of equals the lowest stays in front.
      if (values[i] > least.logit) insert_candidate(candidates, {values[i], first + i});
    }
    bound = std::max(bound, least.logit);
  }
}

// Maximum, sum of exponentials and token to choose of ids [first, end), of which `suppressed` and
// the single ids are left out. `values` has room for them. `candidates` is empty unless wanted.
HWY_INLINE Reduced reduce(const SequenceState& state, const float* logits, IdRange ids,
                          const uint32_t* suppressed, const uint32_t (&left_out)[3], float* values,
                          std::span<TokenCandidate> candidates) {
  Reduced result;
  std::fill(candidates.begin(), candidates.end(), kNoCandidate);
  if (ids.first >= ids.end) return result;
  const F32 d;
  const uint32_t n = ids.end - ids.first, padded = (n + kLanes - 1) / kLanes * kLanes;
  std::copy(logits + ids.first, logits + ids.end, values);
  std::fill(values + n, values + padded, -INFINITY);
  for (uint32_t word = ids.first / 32; word <= (ids.end - 1) / 32; ++word) {
    for (uint32_t bits = suppressed[word]; bits != 0; bits &= bits - 1) {
      const uint32_t id = word * 32 + static_cast<uint32_t>(std::countr_zero(bits));
      if (id >= ids.first && id < ids.end) values[id - ids.first] = -INFINITY;
    }
  }
  for (const uint32_t id : left_out) {
    if (id >= ids.first && id < ids.end) values[id - ids.first] = -INFINITY;
  }
  VF32 most = hn::Set(d, -INFINITY);
  for (uint32_t i = 0; i < padded; i += kLanes) most = hn::Max(most, hn::LoadU(d, values + i));
  const VF32 largest = hn::MaxOfLanes(d, most);
  result.max = hn::GetLane(largest);
  if (!(result.max > -INFINITY)) return result;
  VF32 sum = hn::Zero(d);
  // Below -100 nothing is left of the number, and exp stays clear of subnormals.
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
    draw(state, ids.first, values, padded, result);
    return result;
  }
  result.key = result.logit = result.max;
  result.token =
      ids.first + static_cast<uint32_t>(std::find(values, values + n, result.max) - values);
  return result;
}

void run_token_partials(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& params = command.params_as<TokenParams>();
  const uint32_t sequence = task / command.tasks_per_row_block;
  const SequenceState& state = command.operand<const SequenceState>(2)[sequence];
  if (state.finished) return;
  const AllowedIds allowed = allowed_ids(params, state);
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  const uint32_t left_out[3] = {params.no_timestamps, allowed.blank ? kNone : params.blank,
                                allowed.end_of_text ? kNone : params.end_of_text};
  const float* logits = command.operand<const float>(1) + size_t{sequence} * params.row_stride;
  const auto* suppressed = command.operand<const uint32_t>(3);
  auto* const candidate_lists = command.operand<TokenCandidate>(4);
  auto* const values = reinterpret_cast<float*>(scratch.data);
  const uint32_t first_chunk = task % command.tasks_per_row_block * command.columns_per_task;
  const uint32_t end_chunk = std::min(first_chunk + command.columns_per_task, params.n_chunks);
  for (uint32_t chunk = first_chunk; chunk < end_chunk; ++chunk) {
    const uint32_t first = std::min(chunk * params.chunk, params.n_vocab);
    const uint32_t end = std::min(first + params.chunk, params.n_vocab);
    const auto within = [&](IdRange range) {
      return IdRange{std::max(range.first, first), std::min(range.end, end)};
    };
    std::span<TokenCandidate> candidates[2];
    if (candidate_lists && state.is_beam) {
      const size_t list = (size_t{sequence} * params.n_chunks + chunk) * 2;
      for (size_t kind = 0; kind < 2; ++kind) {
        candidates[kind] = {candidate_lists + (list + kind) * params.n_candidates,
                            params.n_candidates};
      }
    }
    const Reduced text =
        reduce(state, logits, within(allowed.text), suppressed, left_out, values, candidates[0]);
    const Reduced timestamp = reduce(state, logits, within(allowed.timestamp), suppressed, left_out,
                                     values, candidates[1]);
    command.operand<TokenPartial>(0)[size_t{sequence} * params.n_chunks + chunk] = {
        text.max,      text.sum,      text.key,      text.logit,      text.token,
        timestamp.max, timestamp.sum, timestamp.key, timestamp.logit, timestamp.token};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_token_partials);

namespace {

void choose(const PreparedCommand& command, uint32_t sequence) {
  const auto& params = command.params_as<TokenParams>();
  SequenceState& state = command.operand<SequenceState>(0)[sequence];
  if (state.finished || state.is_beam) return;
  const MergedTokens merged(
      command.operand<const TokenPartial>(4) + size_t{sequence} * params.n_chunks, params.n_chunks);
  const Merged& chosen = merged.only_timestamps || merged.timestamp.key > merged.text.key
                             ? merged.timestamp
                             : merged.text;
  // With no id left, the window ends.
  uint32_t token = params.end_of_text;
  double logprob = 0.0;
  if (chosen.any()) {
    token = chosen.token;
    logprob = chosen.logit - merged.together;
  }
  state.sum_logprob += static_cast<float>(logprob);
  if (state.n_sampled < params.max_tokens) {
    command.operand<int32_t>(2)[size_t{sequence} * params.max_tokens + state.n_sampled] =
        static_cast<int32_t>(token);
  }
  const bool is_timestamp = token >= params.timestamp_begin;
  state.penultimate_was_timestamp = state.n_sampled < 1 || state.last_was_timestamp;
  state.last_was_timestamp = is_timestamp;
  if (is_timestamp) state.last_timestamp = token;
  ++state.n_sampled;
  state.copy_rows = 0;
  Row& row = command.operand<Row>(1)[sequence];
  if (token == params.end_of_text || state.n_sampled >= state.max_sampled) {
    state.finished = 1;
    row = {0, -1, 0, 0};
  } else {
    row = {static_cast<int>(token), static_cast<int>(sequence), state.position, 0};
    ++state.position;
  }
}

void run_token_choose(const PreparedCommand& command, uint32_t, ThreadScratch&) {
  const auto& params = command.params_as<TokenParams>();
  const auto* states = command.operand<const SequenceState>(0);
  bool all_finished = true;
  for (uint32_t s = 0; s < params.n_sequences; ++s) {
    choose(command, s);
    all_finished &= states[s].finished != 0;
  }
  if (all_finished) *command.operand<uint32_t>(3) = 1;
}

void require_token_params(const TokenParams& params, const CommandToPrepare& command) {
  command.require(params.n_sequences > 0 && params.n_vocab > 0 && params.n_chunks > 0,
                  "a size is zero");
  command.require(uint64_t{params.n_chunks} * params.chunk >= params.n_vocab,
                  "the chunks do not cover the vocabulary");
}

}  // namespace

void prepare_token_partials(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<TokenParams>();
  require_token_params(params, command);
  command.require_bytes(0, uint64_t{params.n_sequences} * params.n_chunks * sizeof(TokenPartial));
  command.require_bytes(
      1, (uint64_t{params.n_sequences - 1} * params.row_stride + params.n_vocab) * 4);
  command.require_bytes(2, uint64_t{params.n_sequences} * sizeof(SequenceState));
  command.require_bytes(3, (uint64_t{params.n_vocab} + 31) / 32 * 4);
  command.require(params.n_candidates <= kMostBeams + 1, "too many candidates");
  command.require_bytes(4,
                        uint64_t{params.n_sequences} * params.n_chunks * 2 * params.n_candidates *
                            sizeof(TokenCandidate),
                        params.n_candidates == 0);
  // A few thousand ids a task: about two microseconds.
  prepared.columns_per_task = std::max(1u, 4096 / params.chunk);
  prepared.tasks_per_row_block =
      (params.n_chunks + prepared.columns_per_task - 1) / prepared.columns_per_task;
  prepared.n_tasks = params.n_sequences * prepared.tasks_per_row_block;
  constexpr size_t kMostLanes = 16;
  prepared.scratch_bytes =
      sizeof(float) * (size_t{std::min(params.chunk, params.n_vocab)} + kMostLanes);
  prepared.run = HWY_DYNAMIC_DISPATCH(run_token_partials);
}

void prepare_token_choose(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<TokenParams>();
  require_token_params(params, command);
  command.require_bytes(0, uint64_t{params.n_sequences} * sizeof(SequenceState));
  command.require_bytes(1, uint64_t{params.n_sequences} * sizeof(Row));
  command.require_bytes(2, uint64_t{params.n_sequences} * params.max_tokens * 4);
  command.require_bytes(3, 4);
  command.require_bytes(4, uint64_t{params.n_sequences} * params.n_chunks * sizeof(TokenPartial));
  prepared.n_tasks = 1;
  prepared.run = run_token_choose;
}

}  // namespace vesper
#endif

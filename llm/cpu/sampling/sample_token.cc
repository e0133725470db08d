// sample_token: the next token of every sequence that is not a beam, in one task.
#include <algorithm>
#include <cmath>

#include "llm/cpu/prepared_command.h"
#include "llm/cpu/sampling/merged_tokens.h"

namespace vesper {
namespace {

void advance(const PreparedCommand& command, uint32_t s, SequenceState& state) {
  const auto& params = command.params_as<SamplingParams>();
  const MergedTokens merged(command.operand<const TokenPartial>(5) + size_t{s} * params.n_chunks,
                            params.n_chunks, n_text_chunks(params.timestamp_begin, params.chunk));
  const bool takes_timestamp = merged.timestamp.key > -INFINITY &&
                               (merged.only_timestamps || merged.timestamp.key > merged.text.key);
  const Merged& chosen = takes_timestamp ? merged.timestamp : merged.text;
  uint32_t token = std::min(params.end_of_text, params.n_vocab - 1);
  float logprob = 0;
  if (chosen.key > -INFINITY) {
    token = chosen.token;
    logprob = static_cast<float>(chosen.logit - merged.log_sum);
  }
  const uint32_t index = state.first_sampled + state.n_sampled;
  if (index < params.max_tokens) {
    const size_t at = size_t{s} * params.max_tokens + index;
    command.operand<int32_t>(2)[at] = static_cast<int32_t>(token);
    if (auto* logprobs = command.operand<float>(3)) logprobs[at] = logprob;
  }
  state.sum_logprob += logprob;
  advance_state(state, token, params.timestamp_begin);
  state.copy_rows = 0;
  Row& row = command.operand<Row>(1)[s];
  if (is_in_mask(command.operand<const uint32_t>(6), token) ||
      state.n_sampled >= state.max_sampled) {
    state.finished = 1;
    row = {0, -1, 0, 0};
  } else {
    row = {static_cast<int>(token), static_cast<int>(s), state.position, 0};
    ++state.position;
  }
}

void run_sample_token(const PreparedCommand& command, uint32_t, ThreadScratch&) {
  const auto& params = command.params_as<SamplingParams>();
  auto* states = command.operand<SequenceState>(0);
  bool all_finished = true;
  for (uint32_t s = 0; s < params.n_sequences; ++s) {
    if (!states[s].finished && !states[s].is_beam) advance(command, s, states[s]);
    all_finished &= states[s].finished != 0;
  }
  if (all_finished) *command.operand<uint32_t>(4) = 1;
}

}  // namespace

void prepare_sample_token(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<SamplingParams>();
  require_sampling_params(params, command);
  const uint64_t n_tokens = uint64_t{params.n_sequences} * params.max_tokens;
  command.require_bytes(0, uint64_t{params.n_sequences} * sizeof(SequenceState));
  command.require_bytes(1, uint64_t{params.n_sequences} * sizeof(Row));
  command.require_bytes(2, n_tokens * sizeof(int32_t));
  command.require_bytes(3, n_tokens * sizeof(float), true);
  command.require_bytes(4, sizeof(uint32_t));
  command.require_bytes(5, uint64_t{params.n_sequences} * params.n_chunks * sizeof(TokenPartial));
  command.require_bytes(6, (uint64_t{params.n_vocab} + 31) / 32 * sizeof(uint32_t));
  prepared.n_tasks = 1;
  prepared.run = run_sample_token;
}

}  // namespace vesper

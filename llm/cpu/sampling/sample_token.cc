// sample_token: the next token of every sequence that is not a beam, in one task.
#include <algorithm>
#include <cmath>

#include "llm/cpu/prepared_command.h"
#include "llm/cpu/sampling/merged_tokens.h"

namespace vesper {
namespace {

// The token of a row of partials, and its log-probability.
struct SampledToken {
  uint32_t token;
  float logprob;
};

SampledToken token_of_row(const PreparedCommand& command, uint32_t row) {
  const auto& params = command.params_as<SamplingParams>();
  const MergedTokens merged(command.operand<const TokenPartial>(5) + size_t{row} * params.n_chunks,
                            params.n_chunks, n_text_chunks(params.timestamp_begin, params.chunk));
  const bool takes_timestamp = merged.timestamp.key > -INFINITY &&
                               (merged.only_timestamps || merged.timestamp.key > merged.text.key);
  const Merged& chosen = takes_timestamp ? merged.timestamp : merged.text;
  if (!(chosen.key > -INFINITY)) return {std::min(params.end_of_text, params.n_vocab - 1), 0};
  return {chosen.token, static_cast<float>(chosen.logit - merged.log_sum)};
}

// Appends a token to sequence `s`.
void advance(const PreparedCommand& command, uint32_t s, const SampledToken& sampled) {
  const auto& params = command.params_as<SamplingParams>();
  SequenceState& state = command.operand<SequenceState>(0)[s];
  const uint32_t index = state.first_sampled + state.n_sampled;
  if (index < params.max_tokens) {
    const size_t at = size_t{s} * params.max_tokens + index;
    command.operand<int32_t>(2)[at] = static_cast<int32_t>(sampled.token);
    if (auto* logprobs = command.operand<float>(3)) logprobs[at] = sampled.logprob;
  }
  state.sum_logprob += sampled.logprob;
  advance_state(state, sampled.token, params.timestamp_begin);
  state.copy_rows = 0;
  Row& row = command.operand<Row>(1)[s];
  if (is_in_mask(command.operand<const uint32_t>(6), sampled.token) ||
      state.n_sampled >= state.max_sampled) {
    state.finished = 1;
    row = {0, -1, 0, 0};
  } else {
    row = {static_cast<int>(sampled.token), static_cast<int>(s), state.position, 0};
    ++state.position;
  }
}

void run_with_drafts(const PreparedCommand& command, const Row* drafts) {
  const auto* states = command.operand<const SequenceState>(0);
  const uint32_t n_rows = command.params_as<SamplingParams>().n_sequences;
  int32_t sequence = -1, token = -1;  // of the last row
  bool is_sampled = false;
  for (uint32_t r = 0; r < n_rows; ++r) {
    const bool is_first = drafts[r].sequence != sequence;
    sequence = drafts[r].sequence;
    if (sequence < 0) continue;
    const auto s = static_cast<uint32_t>(sequence);
    is_sampled = (is_first || (is_sampled && token == drafts[r].token)) && !states[s].finished;
    if (!is_sampled) continue;
    const SampledToken sampled = token_of_row(command, r);
    advance(command, s, sampled);
    token = static_cast<int32_t>(sampled.token);
  }
}

void run_sample_token(const PreparedCommand& command, uint32_t, ThreadScratch&) {
  if (const Row* drafts = command.operand<const Row>(7)) return run_with_drafts(command, drafts);
  const auto& params = command.params_as<SamplingParams>();
  const auto* states = command.operand<const SequenceState>(0);
  bool all_finished = true;
  for (uint32_t s = 0; s < params.n_sequences; ++s) {
    if (!states[s].finished && !states[s].is_beam) advance(command, s, token_of_row(command, s));
    all_finished &= states[s].finished != 0;
  }
  if (all_finished) *command.operand<uint32_t>(4) = 1;
}

}  // namespace

void prepare_sample_token(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<SamplingParams>();
  require_sampling_params(params, command);
  // With drafts, a row has its sequence as data.
  const bool has_drafts = command.command().operands[7].present();
  const uint64_t n_sequences = has_drafts ? 1 : params.n_sequences;
  const uint64_t n_tokens = n_sequences * params.max_tokens;
  command.require_bytes(0, n_sequences * sizeof(SequenceState));
  command.require_bytes(1, n_sequences * sizeof(Row));
  command.require_bytes(2, n_tokens * sizeof(int32_t));
  command.require_bytes(3, n_tokens * sizeof(float), true);
  command.require_bytes(4, sizeof(uint32_t));
  command.require_bytes(5, uint64_t{params.n_sequences} * params.n_chunks * sizeof(TokenPartial));
  command.require_bytes(6, (uint64_t{params.n_vocab} + 31) / 32 * sizeof(uint32_t));
  command.require_bytes(7, uint64_t{params.n_sequences} * sizeof(Row), true);
  prepared.n_tasks = 1;
  prepared.run = run_sample_token;
}

}  // namespace vesper

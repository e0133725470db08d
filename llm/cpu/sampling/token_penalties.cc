// token_penalties: against repetition of the tokens chosen so far.
#include <algorithm>
#include <cmath>
#include <span>

#include "llm/cpu/prepared_command.h"

namespace vesper {
namespace {

void run_token_penalties(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<PenaltyParams>();
  const SequenceState& state = command.operand<const SequenceState>(1)[task];
  if (state.finished) return;
  float* const logits = command.operand<float>(0) + size_t{task} * params.row_stride;
  const std::span<const int32_t> tokens(
      command.operand<const int32_t>(2) + size_t{task} * params.max_tokens,
      std::min(state.n_sampled, params.max_tokens));
  const auto is_id = [&](int32_t token) {
    return token >= 0 && static_cast<uint32_t>(token) < params.n_vocab;
  };
  if (state.repetition_penalty != 1.0f) {
    for (auto token = tokens.begin(); token != tokens.end(); ++token) {
      if (!is_id(*token) || std::find(tokens.begin(), token, *token) != token) continue;
      float& logit = logits[*token];
      logit = logit < 0 ? logit * state.repetition_penalty : logit / state.repetition_penalty;
    }
  }
  const size_t size = state.no_repeat_ngram_size;
  if (size == 0 || tokens.size() < size) return;
  const auto last = tokens.last(size - 1);
  for (size_t i = 0; i + size <= tokens.size(); ++i) {
    const int32_t token = tokens[i + size - 1];
    if (is_id(token) && std::equal(last.begin(), last.end(), tokens.begin() + i)) {
      logits[token] = -INFINITY;
    }
  }
}

}  // namespace

void prepare_token_penalties(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<PenaltyParams>();
  command.require(params.n_sequences > 0 && params.n_vocab > 0, "a size is zero");
  command.require_bytes(
      0, (uint64_t{params.n_sequences - 1} * params.row_stride + params.n_vocab) * 4);
  command.require_bytes(1, uint64_t{params.n_sequences} * sizeof(SequenceState));
  command.require_bytes(2, uint64_t{params.n_sequences} * params.max_tokens * 4);
  prepared.n_tasks = params.n_sequences;
  prepared.run = run_token_penalties;
}

}  // namespace vesper

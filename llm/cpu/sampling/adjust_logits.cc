// adjust_logits: bias, penalties, no repeated n-grams. One sequence per task.
#include <algorithm>
#include <cmath>
#include <span>

#include "llm/cpu/prepared_command.h"

namespace vesper {
namespace {

// For tokens in the penalty window. `sorted` has as many elements.
void apply_penalties(const SequenceState& state, std::span<const int32_t> history, uint32_t n_vocab,
                     int32_t* sorted, float* logits) {
  const bool is_off = state.repetition_penalty == 1.0f && state.frequency_penalty == 0.0f &&
                      state.presence_penalty == 0.0f;
  const size_t n = std::min<size_t>(history.size(), state.penalty_window);
  if (is_off || n == 0) return;
  const std::span<const int32_t> window = history.last(n);
  std::copy(window.begin(), window.end(), sorted);
  std::sort(sorted, sorted + n);
  for (size_t first = 0, end = 0; first < n; first = end) {
    const int32_t token = sorted[first];
    while (end < n && sorted[end] == token) ++end;
    if (token < 0 || static_cast<uint32_t>(token) >= n_vocab) continue;
    float& logit = logits[token];
    logit = logit > 0 ? logit / state.repetition_penalty : logit * state.repetition_penalty;
    logit -= static_cast<float>(end - first) * state.frequency_penalty + state.presence_penalty;
  }
}

void forbid_repeated_ngrams(size_t size, std::span<const int32_t> history, uint32_t n_vocab,
                            float* logits) {
  if (size == 0 || history.size() < size) return;
  const auto last = history.last(size - 1);
  for (size_t i = 0; i + size <= history.size(); ++i) {
    const int32_t token = history[i + size - 1];
    if (token < 0 || static_cast<uint32_t>(token) >= n_vocab) continue;
    if (std::equal(last.begin(), last.end(), history.begin() + static_cast<std::ptrdiff_t>(i))) {
      logits[token] = -INFINITY;
    }
  }
}

void run_adjust_logits(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& params = command.params_as<SamplingParams>();
  const SequenceState& state = command.operand<const SequenceState>(1)[task];
  if (state.finished) return;
  float* const logits = command.operand<float>(0) + size_t{task} * params.row_stride;
  const Row* const drafts = command.operand<const Row>(4);
  const auto sequence = drafts ? static_cast<size_t>(drafts[task].sequence) : size_t{task};
  if (const auto* lists = command.operand<const TokenBias>(3)) {
    for (const TokenBias& entry :
         std::span(lists + sequence * kMostBias, std::min(state.n_bias, kMostBias))) {
      if (entry.token < params.n_vocab) logits[entry.token] += entry.bias;
    }
  }
  const int32_t* const tokens = command.operand<const int32_t>(2);
  if (tokens == nullptr) return;
  const std::span<const int32_t> history(
      tokens + sequence * params.max_tokens,
      std::min(state.first_sampled + state.n_sampled, params.max_tokens));
  apply_penalties(state, history, params.n_vocab, reinterpret_cast<int32_t*>(scratch.data), logits);
  forbid_repeated_ngrams(state.no_repeat_ngram_size, history, params.n_vocab, logits);
}

}  // namespace

void prepare_adjust_logits(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<SamplingParams>();
  command.require(params.n_sequences > 0 && params.n_vocab > 0, "a size is zero");
  command.require_bytes(
      0, (uint64_t{params.n_sequences - 1} * params.row_stride + params.n_vocab) * 4);
  command.require_bytes(1, uint64_t{params.n_sequences} * sizeof(SequenceState));
  const bool has_drafts = command.command().operands[4].present();
  command.require_bytes(2, (has_drafts ? 1 : uint64_t{params.n_sequences}) * params.max_tokens * 4,
                        true);
  command.require_bytes(
      3, (has_drafts ? 1 : uint64_t{params.n_sequences}) * kMostBias * sizeof(TokenBias), true);
  command.require_bytes(4, uint64_t{params.n_sequences} * sizeof(Row), true);
  prepared.n_tasks = params.n_sequences;
  prepared.scratch_bytes = params.max_tokens * sizeof(int32_t);
  prepared.run = run_adjust_logits;
}

}  // namespace vesper

// draw_token: one task for all sequences, for there is little to do.
#include <algorithm>
#include <cmath>
#include <limits>

#include "llm/cpu/prepared_command.h"

namespace vesper {
namespace {

// Draws the next token of sequence s and advances its state.
void draw(const PreparedCommand& command, uint32_t s, GenerationState& state) {
  const auto& params = command.params_as<DrawParams>();
  const DrawPartial* partials = command.operand<const DrawPartial>(5) + size_t{s} * params.n_chunks;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  DrawPartial all{-kInfinity, 0, -kInfinity, -kInfinity, UINT32_MAX};
  for (uint32_t c = 0; c < params.n_chunks; ++c) {
    all.greatest = std::max(all.greatest, partials[c].greatest);
    if (partials[c].key > all.key) {
      all.key = partials[c].key;
      all.logit = partials[c].logit;
      all.token = partials[c].token;
    }
  }
  for (uint32_t c = 0; c < params.n_chunks; ++c) {
    if (partials[c].greatest > -kInfinity) {
      all.sum += partials[c].sum * std::exp(partials[c].greatest - all.greatest);
    }
  }
  // Nothing can be chosen where every logit is -inf or not a number.
  const uint32_t token = std::min(all.token, params.n_vocab - 1);
  const size_t at = size_t{s} * params.token_stride + state.n_tokens;
  int32_t* tokens = command.operand<int32_t>(2);
  tokens[at] = static_cast<int32_t>(token);
  command.operand<float>(3)[at] = all.logit - all.greatest - std::log(all.sum);
  if (auto* counts = command.operand<int32_t>(7); counts != nullptr && state.penalty_window > 0) {
    counts += size_t{s} * params.n_vocab;
    ++counts[token];
    if (state.n_tokens >= state.penalty_window) --counts[tokens[at - state.penalty_window]];
  }
  Row& row = command.operand<Row>(1)[s];
  row = {static_cast<int32_t>(token), static_cast<int32_t>(s), static_cast<int32_t>(state.n_tokens),
         0};
  ++state.n_tokens;
  ++state.n_drawn;
  const bool is_end = command.operand<const uint32_t>(6)[token / 32] >> token % 32 & 1u;
  if (is_end || state.n_tokens >= state.max_tokens) {
    state.finished = 1;
    row = {0, -1, 0, 0};
  }
}

void run_draw_token(const PreparedCommand& command, uint32_t, ThreadScratch&) {
  const auto& params = command.params_as<DrawParams>();
  auto* states = command.operand<GenerationState>(0);
  bool all_finished = true;
  for (uint32_t s = 0; s < params.n_sequences; ++s) {
    if (!states[s].finished) draw(command, s, states[s]);
    all_finished &= states[s].finished != 0;
  }
  if (all_finished) *command.operand<uint32_t>(4) = 1;
}

}  // namespace

void prepare_draw_token(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<DrawParams>();
  command.require(params.n_sequences > 0 && params.n_vocab > 0 && params.n_chunks > 0,
                  "a size is zero");
  const uint64_t n_tokens = uint64_t{params.n_sequences} * params.token_stride;
  command.require_bytes(0, params.n_sequences * sizeof(GenerationState));
  command.require_bytes(1, params.n_sequences * sizeof(Row));
  command.require_bytes(2, n_tokens * 4);
  command.require_bytes(3, n_tokens * 4);
  command.require_bytes(4, 4);
  command.require_bytes(5, uint64_t{params.n_sequences} * params.n_chunks * sizeof(DrawPartial));
  command.require_bytes(6, (uint64_t{params.n_vocab} + 31) / 32 * 4);
  command.require_bytes(7, uint64_t{params.n_sequences} * params.n_vocab * 4, true);
  prepared.run = run_draw_token;
  prepared.n_tasks = 1;
}

}  // namespace vesper

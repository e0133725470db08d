// Steps of a decoding loop whose texts have grammars. The logits do not depend on the masks, so the
// device computes them while the host makes the masks. The second program chooses the tokens.
#include <algorithm>

#include "error/error.h"
#include "llm/generation/decoding_loop.h"

namespace vesper {

StepShape DecodingLoop::running_shape() const {
  StepShape shape = shape_;
  shape.n_slots = slots_needed();
  for (uint32_t slot = 0; slot < shape.n_slots; ++slot) {
    if (!is_running_[slot]) continue;
    shape.has_bias |= state(slot).n_bias > 0;
    shape.has_masks |= state(slot).has_mask != 0;
  }
  return shape;
}

const GrammarConstraint* DecodingLoop::grammar(uint32_t slot) const {
  const auto& grammar = grammars_[first_sequence(slot)];
  return grammar ? &*grammar : nullptr;
}

void DecodingLoop::constrain(uint32_t slot, const TextConstraints& constraints) {
  const uint32_t first = first_sequence(slot), end = first + shape_.n_candidates;
  const uint64_t n_sequences = model_.options().n_sequences;
  if (constraints.bias.size() > kMostBias || (constraints.grammar && state(slot).is_beam)) {
    throw Error(ErrorKind::kInternal, "decoding loop: expected at most " +
                                          std::to_string(kMostBias) +
                                          " biases, and no grammar with beams, found " +
                                          std::to_string(constraints.bias.size()) + " biases");
  }
  if (!constraints.bias.empty()) {
    constexpr uint64_t kListBytes = uint64_t{kMostBias} * sizeof(TokenBias);
    if (!bias_.present()) bias_ = device_.allocate(n_sequences * kListBytes, "biases");
    for (uint32_t s = first; s < end; ++s) {
      device_.write(bias_.part(s * kListBytes, constraints.bias.size_bytes()),
                    constraints.bias.data());
    }
  }
  for (uint32_t s = first; s < end; ++s) {
    grammars_[s].reset();
    if (constraints.grammar) grammars_[s].emplace(*constraints.grammar);
  }
  if (!constraints.grammar) return;
  if (!allowed_.present()) {
    allowed_ = device_.allocate(n_sequences * stop_ids_.bytes, "masks of sequences");
    allowed_host_.resize(allowed_.bytes / sizeof(uint32_t));
    if (options_.most_drafted_rows > 0) {
      draft_allowed_ =
          device_.allocate(options_.most_drafted_rows * stop_ids_.bytes, "masks of drafted rows");
      draft_allowed_host_.resize(draft_allowed_.bytes / sizeof(uint32_t));
    }
    is_masked_.resize(n_sequences);
    sampled_host_.resize(n_sequences);
  }
  for (uint32_t s = first; s < end; ++s) {
    if (!states_host_[s].finished) take_forced(s, rows_host_[s].token);
  }
}

void DecodingLoop::throw_unspellable() {
  throw Error(ErrorKind::kUsage, "grammar",
              "expected a text that the tokens of the model can spell");
}

void DecodingLoop::write_masks() {
  const size_t n_words = stop_ids_.bytes / sizeof(uint32_t);
  uint32_t first = shape_.n_sequences(), end = 0;
  for (uint32_t s = 0; s < shape_.n_sequences(); ++s) {
    is_masked_[s] = grammars_[s] && !states_host_[s].finished;
    if (!is_masked_[s]) continue;
    if (!grammars_[s]->fill_mask(std::span(allowed_host_).subspan(s * n_words, n_words))) {
      throw_unspellable();
    }
    first = std::min(first, s);
    end = s + 1;
  }
  const uint64_t bytes = stop_ids_.bytes;
  if (first < end) {
    device_.write(allowed_.part(first * bytes, (end - first) * bytes),
                  allowed_host_.data() + first * n_words);
  }
}

void DecodingLoop::masked_step() {
  const uint32_t n = shape_.n_sequences();
  device_.run(programs_->step);
  write_masks();
  device_.run(programs_->choice);
  device_.read(states_.part(0, n * sizeof(SequenceState)), states_host_.data());
  device_.read(step_rows_.part(0, n * sizeof(Row)), rows_host_.data());
  for (uint32_t s = 0; s < n; ++s) {
    if (!is_masked_[s]) continue;
    const SequenceState& state = states_host_[s];
    const uint64_t last = uint64_t{s} * n_ctx_ + state.first_sampled + state.n_sampled - 1;
    sampled_host_[s] = rows_host_[s].token;
    // The row of a finished sequence is idle.
    if (state.finished) {
      device_.read(tokens_.part(last * sizeof(int32_t), sizeof(int32_t)), &sampled_host_[s]);
    }
  }
  for (uint32_t s = 0; s < n; ++s) {
    if (is_masked_[s]) accept_sampled(s, std::span(sampled_host_).subspan(s, 1));
  }
  note_ended();
}

void DecodingLoop::accept_sampled(uint32_t s, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    if (grammars_[s]->accept(token)) continue;
    throw Error(ErrorKind::kUsage, "grammar",
                "expected a text without suppressed tokens; no token may follow");
  }
  if (!states_host_[s].finished) take_forced(s, tokens.back());
}

void DecodingLoop::take_forced(uint32_t s, int32_t pending) {
  SequenceState& state = states_host_[s];
  Row row{pending, static_cast<int32_t>(s), state.position - 1, 0};
  const uint32_t n_before = state.first_sampled + state.n_sampled;
  // The last token is sampled, so that the device ends the sequence. Samples of one prompt go on
  // side by side.
  const uint32_t n_left = state.max_sampled - state.n_sampled;
  std::vector<int32_t> tokens;
  if (shape_.n_candidates == 1 && n_left > 1) tokens = grammars_[s]->take_forced(n_left - 1);
  const bool is_complete = grammars_[s]->is_complete();
  if (tokens.empty() && !is_complete) return;
  if (!tokens.empty()) {
    const auto n = static_cast<uint32_t>(tokens.size());
    const uint64_t at = uint64_t{s} * n_ctx_ + n_before;
    std::ranges::copy(tokens, tokens_host_.begin() + static_cast<std::ptrdiff_t>(at));
    std::fill_n(logprobs_host_.begin() + static_cast<std::ptrdiff_t>(at), n, 0.0f);
    device_.write(tokens_.part(at * sizeof(int32_t), n * sizeof(int32_t)), tokens.data());
    device_.write(logprobs_.part(at * sizeof(float), n * sizeof(float)), &logprobs_host_[at]);
    tokens.insert(tokens.begin(), pending);
    run_passes(s, std::span(tokens).first(n), static_cast<uint32_t>(row.position), nullptr);
    row = {tokens.back(), row.sequence, row.position + static_cast<int32_t>(n), 0};
    state.position += static_cast<int32_t>(n);
    state.n_sampled += n;
  }
  if (is_complete) {
    state.finished = 1;
    row = {0, -1, 0, 0};
  }
  device_.write(states_.part(s * sizeof(SequenceState), sizeof(SequenceState)), &state);
  device_.write(step_rows_.part(s * sizeof(Row), sizeof(Row)), &row);
}

}  // namespace vesper

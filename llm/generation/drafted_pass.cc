// Passes of a decoding loop over drafted tokens.
#include <algorithm>
#include <string>

#include "error/error.h"
#include "llm/generation/decoding_loop.h"

namespace vesper {
namespace {

// Rows of the recorded passes.
constexpr uint32_t kDraftedRows[] = {2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64};

}  // namespace

std::vector<DecodingLoop::PassProgram> DecodingLoop::record_drafted_passes(const StepShape& shape) {
  std::vector<PassProgram> passes;
  std::vector<DispatchTable> tables, choices;
  for (const uint32_t size : kDraftedRows) {
    const uint32_t n_rows = std::min(size, options_.most_drafted_rows);
    if (!passes.empty() && passes.back().n_rows == n_rows) break;
    DispatchTable& table = tables.emplace_back();
    model_.emit_rows(table, n_rows, model_.context(draft_rows_));
    model_.emit_logits(table, n_rows, {}, logits_, draft_logit_rows_);
    emit_choice(shape.has_masks ? choices.emplace_back() : table, shape, n_rows);
    passes.push_back({n_rows, 0});
  }
  const std::vector<ProgramId> programs = device_.record_all(tables);
  const std::vector<ProgramId> choice_programs = device_.record_all(choices);
  for (size_t i = 0; i < passes.size(); ++i) {
    passes[i].program = programs[i];
    if (shape.has_masks) passes[i].choice = choice_programs[i];
  }
  return passes;
}

const DecodingLoop::PassProgram* DecodingLoop::drafted_pass(uint32_t n_tokens) const {
  const auto pass = std::ranges::find_if(
      programs_->drafted, [&](const PassProgram& each) { return each.n_rows >= n_tokens; });
  return pass == programs_->drafted.end() ? nullptr : &*pass;
}

uint32_t DecodingLoop::drafted_pass_rows(uint32_t n_tokens) const {
  const PassProgram* const pass = drafted_pass(n_tokens);
  return pass == nullptr ? 0 : pass->n_rows;
}

size_t DecodingLoop::n_allowed_drafts(uint32_t slot, std::span<const int32_t> drafted) {
  const auto& grammar = grammars_[first_sequence(slot)];
  if (!grammar) return drafted.size();
  draft_grammar_ = *grammar;
  uint32_t n_left = state(slot).max_sampled - state(slot).n_sampled;
  for (size_t i = 0; i < drafted.size(); ++i) {
    if (!draft_grammar_->accept(drafted[i]) || draft_grammar_->is_complete()) return i;
    if (--n_left > 1 && !draft_grammar_->take_forced(n_left - 1).empty()) return i;
  }
  return drafted.size();
}

void DecodingLoop::write_draft_masks(std::span<const Draft> drafts) {
  const size_t n_words = stop_ids_.bytes / sizeof(uint32_t);
  uint32_t row = 0;
  for (const Draft& draft : drafts) {
    const auto& grammar = grammars_[draft.slot];
    if (grammar) draft_grammar_ = *grammar;
    for (uint32_t i = 0; i < draft.tokens.size(); ++i, ++row) {
      if (!grammar || i < draft.n_given) continue;
      if (i > draft.n_given && !draft_grammar_->accept(draft.tokens[i])) {
        throw Error(ErrorKind::kInternal, "decoding loop: a drafted token is not of the grammar");
      }
      const bool any =
          draft_grammar_->fill_mask(std::span(draft_allowed_host_).subspan(row * n_words, n_words));
      if (!any && i == draft.n_given) throw_unspellable();
    }
  }
  device_.write(draft_allowed_.part(0, row * stop_ids_.bytes), draft_allowed_host_.data());
}

void DecodingLoop::accept_drafted(std::span<const Draft> drafts) {
  uint32_t row = 0;
  for (const Draft& draft : drafts) {
    const uint32_t n_before = draft_states_host_[row + draft.n_given].n_sampled;
    row += static_cast<uint32_t>(draft.tokens.size());
    if (!grammars_[draft.slot]) continue;
    const SequenceState& state = states_host_[draft.slot];
    const uint64_t first = uint64_t{draft.slot} * n_ctx_ + state.first_sampled + n_before;
    const uint32_t n = state.n_sampled - n_before;
    const std::span<int32_t> sampled = std::span(tokens_host_).subspan(first, n);
    device_.read(tokens_.part(first * sizeof(int32_t), sampled.size_bytes()), sampled.data());
    accept_sampled(draft.slot, sampled);
  }
}

std::span<const uint32_t> DecodingLoop::advance_with_drafts(std::span<const Draft> drafts) {
  programs_ = &programs_of(running_shape());
  uint32_t n_tokens = 0;
  for (const Draft& draft : drafts) n_tokens += static_cast<uint32_t>(draft.tokens.size());
  const PassProgram* const pass = drafted_pass(n_tokens);
  if (shape_.n_candidates != 1 || pass == nullptr) {
    throw Error(ErrorKind::kInternal, "decoding loop: expected drafts of up to " +
                                          std::to_string(options_.most_drafted_rows) +
                                          " tokens for slots of one sequence, found " +
                                          std::to_string(n_tokens) + " tokens for slots of " +
                                          std::to_string(shape_.n_candidates));
  }
  constexpr Row kIdleRow{0, -1, 0, 0};
  uint32_t row = 0;
  for (const Draft& draft : drafts) {
    const SequenceState& state = states_host_[draft.slot];
    const int32_t first = state.position - 1 - static_cast<int32_t>(draft.n_given);
    for (uint32_t i = 0; i < draft.tokens.size(); ++i, ++row) {
      const bool is_given = i < draft.n_given;
      rows_host_[row] = {draft.tokens[i], static_cast<int32_t>(draft.slot),
                         first + static_cast<int32_t>(i), 0};
      draft_logit_rows_host_[row] = is_given ? kIdleRow : rows_host_[row];
      draft_states_host_[row] = state;
      draft_states_host_[row].finished |= is_given;
      draft_states_host_[row].n_sampled += is_given ? 0 : i - draft.n_given;
    }
    const bool has_history = state.penalty_window > 0 || state.no_repeat_ngram_size > 0;
    const std::span<const int32_t> drafted = draft.tokens.subspan(draft.n_given + 1);
    if (!has_history || drafted.empty()) continue;
    const uint64_t end = uint64_t{draft.slot} * n_ctx_ + state.first_sampled + state.n_sampled;
    device_.write(tokens_.part(end * sizeof(int32_t), drafted.size_bytes()), drafted.data());
  }
  for (; row < pass->n_rows; ++row) {
    rows_host_[row] = draft_logit_rows_host_[row] = kIdleRow;
    draft_states_host_[row].finished = 1;
  }
  device_.write(draft_rows_.part(0, row * sizeof(Row)), rows_host_.data());
  device_.write(draft_logit_rows_.part(0, row * sizeof(Row)), draft_logit_rows_host_.data());
  device_.write(draft_states_.part(0, row * sizeof(SequenceState)), draft_states_host_.data());
  device_.run(pass->program);
  const bool has_masks = any_has_grammar();
  if (has_masks) {
    write_draft_masks(drafts);
    device_.run(pass->choice);
  }
  ended_.clear();
  device_.read(states_.part(0, shape_.n_sequences() * sizeof(SequenceState)), states_host_.data());
  if (has_masks) accept_drafted(drafts);
  note_ended();
  return ended_;
}

}  // namespace vesper

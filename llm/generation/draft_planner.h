// How many tokens are drafted. In: measured times of steps, passes and drafting, which guessed
// tokens were accepted, and guesses. Out: the number of tokens of each guess that promises the most
// tokens per second, often none. Has no clock and no model. Used by llm/generation/speculation.
//
// A drafted token counts if all tokens before it are accepted. A token that is not guessed yet is
// expected to be accepted as often as the guessed ones of its slot were so far. While nothing is
// drafted, this expectation slowly returns to where it began, so that drafting is tried again; the
// less often the more it has failed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "llm/generation/draft_source.h"

namespace vesper {

class DraftPlanner {
 public:
  // `pass_rows`: the rows of the pass that runs this many tokens. A pass with drafts must promise
  // least_gain times the tokens per second of a step.
  DraftPlanner(uint32_t n_slots, const std::array<double, kGuessClasses>& first_acceptance,
               std::function<uint32_t(uint32_t)> pass_rows, double least_gain);

  // A text starts in a slot.
  void start(uint32_t slot);

  // Measured seconds while texts run in n_running slots: of a step, of a pass over n_tokens rows,
  // and of adding a token to guesses.
  void add_step(size_t n_running, double seconds);
  void add_pass(size_t n_running, uint32_t n_tokens, double seconds);
  void add_drafting(size_t n_running, double seconds);

  // Sets Guess::n_drafted of the guesses of all running slots. `n_added`: tokens that were added to
  // guesses for this pass, whose time is spent.
  void plan(std::span<Guess> guesses, uint32_t n_added) const;
  // The first n_equal tokens of a guess were sampled, and the token after them was not. `n`: tokens
  // of the guess that can be compared.
  void learn(const Guess& guess, uint32_t n_equal, uint32_t n);

 private:
  struct Slot {
    std::array<double, kGuessClasses> acceptance{};  // probability that a token is accepted
    double expected = 0;                             // of tokens that are not guessed yet
    double recovery = 0;  // how far `expected` returns in a step without a guess
  };
  double seconds_of(uint32_t n_tokens, double step_s) const;
  // The probability that token `index` of a guess is accepted if those before it are; 0: there is
  // no such token.
  double acceptance(const Guess& guess, uint32_t index) const;

  std::array<double, kGuessClasses> first_acceptance_;
  double first_expected_;
  std::function<uint32_t(uint32_t)> pass_rows_;
  double least_gain_;
  std::vector<Slot> slots_;
  uint32_t n_draftings_ = 0;  // that were measured
  // Seconds; 0: unknown.
  using Times = std::array<double, kMostDraftedRows + 1>;
  Times step_s_{}, drafting_s_{};  // by running slots
  Times pass_s_{};                 // by rows
};

}  // namespace vesper

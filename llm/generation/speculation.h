// Speculative decoding. In: the texts of a decoding loop's slots. Out: their next tokens, several
// in one pass where a guess of them is right.
//
// A source guesses the next tokens of each slot (draft_source.h), and a planner decides how many of
// them are worth a row (draft_planner.h). One pass runs them all, and the model's own sampler
// decides which of them it would have sampled. Each token is therefore the one that steps without
// drafts sample. Used by llm/generation/generator.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "llm/generation/decoding_loop.h"
#include "llm/generation/draft_planner.h"
#include "llm/generation/draft_source.h"

namespace vesper {

struct SpeculationStatistics {
  uint64_t n_drafted = 0;   // tokens that passes ran as drafts
  uint64_t n_accepted = 0;  // of these, sampled by the model too
};

class Speculation {
 public:
  // `loop` has kMostDraftedRows drafted rows; `source` must outlive this object. least_gain: of
  // DraftPlanner.
  Speculation(const Device& device, DecodingLoop& loop, DraftSource& source, uint32_t n_slots,
              uint32_t n_ctx, double least_gain);

  // A text starts in a slot, after DecodingLoop::start. See DraftSource::start.
  void start(uint32_t slot, const Sampling& sampling, std::span<const TokenBias> bias,
             const std::function<bool()>& is_cancelled);
  // Runs up to n_passes passes of all slots and reads what they sampled. Without `may_draft`, each
  // pass is a step of one token per slot.
  void advance(uint32_t n_passes, bool may_draft);

  // Since start().
  const SpeculationStatistics& statistics(uint32_t slot) const { return statistics_[slot]; }

 private:
  // Begins a guess of each running slot.
  void begin_guesses();
  // Extends guesses and decides how many of their tokens the next pass runs.
  void draft();
  // Cuts a guess before a token that the grammar of its text does not allow.
  void limit(Guess& guess);
  // Runs a pass over drafts, or up to n_steps steps. Returns the number of passes.
  uint32_t run(uint32_t n_steps);
  // Takes what a pass has sampled.
  void take(const Guess& guess);

  DecodingLoop& loop_;
  DraftSource& source_;
  DraftPlanner planner_;
  uint32_t unguessed_steps_;                       // steps at once without a guess
  std::vector<SpeculationStatistics> statistics_;  // [n_slots]
  std::vector<Guess> guesses_;                     // of running slots
  std::vector<Guess*> short_guesses_;
  std::vector<Draft> drafts_;
};

}  // namespace vesper

// Speculative decoding. In: the texts of a decoding loop's slots. Out: their next tokens, several
// in one pass where a guess of them is right.
//
// Before a pass, each slot gets drafted tokens: those that followed an earlier occurrence of the
// text's last tokens (ngram_lookup.h). The pass runs them all, and the model's own sampler decides
// which of them it would have sampled. Each token is therefore the one that steps without drafts
// sample.
//
// The number of drafted tokens follows from their acceptance, per slot and length of the match, and
// from measured times of passes: the number that gives the most tokens per second, often none. Used
// by llm/generation/generator.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "llm/generation/decoding_loop.h"
#include "llm/generation/ngram_lookup.h"

namespace vesper {

struct SpeculationStatistics {
  uint64_t n_drafted = 0;   // tokens that passes ran as drafts
  uint64_t n_accepted = 0;  // of these, sampled by the model too
};

class Speculation {
 public:
  // Rows of a pass: one per running slot and one per drafted token. Up to this number, the CPU's
  // kernels compute a row as in a pass of one, to the last bit.
  static constexpr uint32_t kMostRows = 12;

  // `loop` has kMostRows drafted rows.
  Speculation(const Device& device, DecodingLoop& loop, uint32_t n_slots, uint32_t n_ctx);

  // A text starts in a slot, after DecodingLoop::start.
  void start(uint32_t slot);
  // Runs up to n_passes passes of all slots and reads what they sampled. Without `may_draft`, each
  // pass is a step of one token per slot.
  void advance(uint32_t n_passes, bool may_draft);

  // Since start().
  const SpeculationStatistics& statistics(uint32_t slot) const { return slots_[slot].statistics; }

 private:
  // Classes of guesses by the length of their match.
  static constexpr uint32_t kClasses = 5;
  struct Slot {
    explicit Slot(uint32_t n_ctx) : lookup(n_ctx) {}
    NgramLookup lookup;
    std::array<double, kClasses> acceptance{};  // probability that a drafted token is accepted
    uint32_t match_class = 0;                   // of the guess
    uint32_t n_guessed = 0, n_drafted = 0;      // tokens of the guess; of these in the pass
    uint32_t n_known = 0;                       // tokens of the text
    std::array<int32_t, kMostRows> tokens{};    // the text's last token, then the guess
    SpeculationStatistics statistics;
  };

  void guess(uint32_t slot);
  // Decides n_drafted of each running slot.
  void plan();
  // Runs a pass over drafts, or up to n_steps steps. Returns the number of passes.
  uint32_t run(uint32_t n_steps);
  // Takes what a pass has sampled.
  void take(uint32_t slot);
  double seconds_of(uint32_t n_rows) const;

  DecodingLoop& loop_;
  uint32_t unguessed_steps_;  // steps at once without a guess
  std::vector<Slot> slots_;
  std::vector<uint32_t> running_;  // slots
  std::vector<uint32_t> counts_;   // of plan(), per slot
  std::vector<Draft> drafts_;
  // Seconds of a step of all slots, and of drafted passes by their rows; 0: unknown.
  double step_s_ = 0;
  std::array<double, kMostRows + 1> pass_s_{};
};

}  // namespace vesper

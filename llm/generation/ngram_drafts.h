// Drafts from earlier text: the tokens that followed where the text's last tokens stood before, in
// the prompt or the answer. The class of a guess is the length of the match.
#pragma once

#include <vector>

#include "llm/generation/draft_source.h"
#include "llm/generation/ngram_lookup.h"

namespace vesper {

class NgramDrafts : public DraftSource {
 public:
  void prepare(uint32_t n_slots, uint32_t n_ctx) override;
  std::array<double, kGuessClasses> first_acceptance() const override;
  void start(uint32_t slot, std::span<const int32_t> prompt, const Sampling& sampling,
             std::span<const TokenBias> bias, const std::function<bool()>& is_cancelled) override;
  void begin(Guess& guess) override;
  void extend(std::span<Guess* const>) override {}  // begin() gives complete guesses

 private:
  std::vector<NgramLookup> lookups_;  // [n_slots]
};

}  // namespace vesper

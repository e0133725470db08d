#include "llm/generation/ngram_drafts.h"

namespace vesper {
namespace {

// Least lengths of the matches of each class.
constexpr uint32_t kLeastLengths[kGuessClasses] = {2, 3, 4, 6, 12};

}  // namespace

void NgramDrafts::prepare(uint32_t n_slots, uint32_t n_ctx) {
  lookups_.clear();
  lookups_.reserve(n_slots);
  for (uint32_t slot = 0; slot < n_slots; ++slot) lookups_.emplace_back(n_ctx);
}

std::array<double, kGuessClasses> NgramDrafts::first_acceptance() const {
  return {0.35, 0.5, 0.65, 0.8, 0.9};
}

void NgramDrafts::start(uint32_t slot, std::span<const int32_t> prompt, const Sampling&,
                        std::span<const TokenBias>, const std::function<bool()>&) {
  lookups_[slot].clear();
  lookups_[slot].extend(prompt);
}

void NgramDrafts::begin(Guess& guess) {
  guess.is_complete = true;
  NgramLookup& lookup = lookups_[guess.slot];
  lookup.extend(guess.text);
  const NgramLookup::Match match = lookup.find(guess.text);
  if (match.length == 0) return;
  uint32_t match_class = kGuessClasses - 1;
  while (match.length < kLeastLengths[match_class]) --match_class;
  std::array<int32_t, kMostDraftedRows> tokens;
  const auto guessed = std::span(tokens).first(guess.most);
  NgramLookup::continue_from(match, guess.text, guessed);
  for (const int32_t token : guessed) guess.add(token, match_class);
}

}  // namespace vesper

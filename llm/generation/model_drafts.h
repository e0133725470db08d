// Drafts from a smaller model with the same tokens. It samples with the settings of the text: the
// same seed, filters, penalties and biases, so that where its probabilities are close to those of
// the large model, it samples the same token. The class of a token is its probability there.
//
// The draft model has a cache of its own. It reads the tokens of a text that it has not seen when
// it goes on to draft.
#pragma once

#include <functional>
#include <vector>

#include "llm/generation/draft_source.h"
#include "llm/generation/generator.h"

namespace vesper {

class ModelDrafts : public DraftSource {
 public:
  // `options`: of the large model's generator, without beams, and with `resumes`. Its vocabulary
  // has n_vocab tokens. Uploads the draft model. Throws like Generator.
  ModelDrafts(Device& device, const WeightProvider& draft, Compute compute,
              const GeneratorOptions& options, uint32_t n_vocab)
      : draft_(device, draft, compute, options), n_vocab_(n_vocab) {}
  // Those of the large model's generator.
  void set_stop_ids(std::span<const int32_t> ids) { draft_.set_stop_ids(ids); }

  void prepare(uint32_t n_slots, uint32_t n_ctx) override;
  std::array<double, kGuessClasses> first_acceptance() const override;
  void start(uint32_t slot, std::span<const int32_t> prompt, const Sampling& sampling,
             std::span<const TokenBias> bias, const std::function<bool()>& is_cancelled) override;
  void begin(Guess& guess) override;
  void extend(std::span<Guess* const> guesses) override;

 private:
  struct Slot {
    size_t n_read = 0;     // tokens of the text that the draft model can read
    bool can_read = true;  // so far all of them
  };
  bool can_read(Slot& slot, std::span<const int32_t> text) const;
  // Adds the token that the draft model has just sampled.
  void take(Guess& guess) const;

  Generator draft_;
  uint32_t n_vocab_;
  std::vector<Slot> slots_;  // [n_slots]
};

}  // namespace vesper

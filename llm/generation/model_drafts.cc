#include "llm/generation/model_drafts.h"

#include <algorithm>
#include <cmath>

namespace vesper {
namespace {

// Least probabilities of the classes.
constexpr float kLeastProbabilities[kGuessClasses] = {0, 0.3f, 0.6f, 0.85f, 0.97f};

}  // namespace

void ModelDrafts::prepare(uint32_t n_slots, uint32_t) {
  slots_.resize(n_slots);
  draft_.prepare();
}

std::array<double, kGuessClasses> ModelDrafts::first_acceptance() const {
  return {0.3, 0.45, 0.65, 0.85, 0.95};
}

// The two vocabularies may differ in unused tokens at their ends.
bool ModelDrafts::can_read(Slot& slot, std::span<const int32_t> text) const {
  for (; slot.can_read && slot.n_read < text.size(); ++slot.n_read) {
    slot.can_read = static_cast<uint32_t>(text[slot.n_read]) < draft_.n_vocab();
  }
  return slot.can_read && text.size() < draft_.n_ctx();
}

void ModelDrafts::start(uint32_t slot, std::span<const int32_t> prompt, const Sampling& sampling,
                        std::span<const TokenBias> bias,
                        const std::function<bool()>& is_cancelled) {
  slots_[slot] = {};
  if (!can_read(slots_[slot], prompt)) return;
  std::vector<std::pair<int32_t, float>> known;
  for (const auto& [id, value] : bias) {
    if (id < draft_.n_vocab()) known.emplace_back(static_cast<int32_t>(id), value);
  }
  draft_.start(slot, prompt, 0, sampling, {.bias = known}, is_cancelled);
}

void ModelDrafts::begin(Guess& guess) {
  if (!can_read(slots_[guess.slot], guess.text)) {
    guess.is_complete = true;
    return;
  }
  const auto n_left = static_cast<uint32_t>(draft_.n_ctx() - guess.text.size());
  guess.most = std::min(guess.most, n_left);
}

void ModelDrafts::extend(std::span<Guess* const> guesses) {
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (std::ranges::find(guesses, slot, &Guess::slot) == guesses.end()) draft_.stop(slot);
  }
  for (Guess* const guess : guesses) {
    if (guess->n == 0) {
      draft_.resume(guess->slot, guess->text, guess->most);
    } else {
      // It was stopped while only others were extended.
      guess->is_complete = !draft_.is_running(guess->slot);
    }
  }
  draft_.advance(1);
  for (Guess* const guess : guesses) {
    if (!guess->is_complete) take(*guess);
  }
}

void ModelDrafts::take(Guess& guess) const {
  const int32_t token = draft_.sampled(guess.slot).back();
  guess.is_complete = !draft_.is_running(guess.slot) || static_cast<uint32_t>(token) >= n_vocab_;
  if (static_cast<uint32_t>(token) >= n_vocab_) return;
  const float probability = std::exp(draft_.logprobs(guess.slot).back());
  uint32_t token_class = kGuessClasses - 1;
  while (probability < kLeastProbabilities[token_class]) --token_class;
  guess.add(token, token_class);
}

}  // namespace vesper

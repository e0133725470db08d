#include "llm/generation/speculation.h"

#include <algorithm>
#include <chrono>

namespace vesper {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Steps of a GPU between two looks of the host, where nothing is guessed.
constexpr uint32_t kGpuSteps = 4;

double seconds_from(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

}  // namespace

Speculation::Speculation(const Device& device, DecodingLoop& loop, DraftSource& source,
                         uint32_t n_slots, uint32_t n_ctx, double least_gain)
    : loop_(loop),
      source_(source),
      planner_(
          n_slots, source.first_acceptance(),
          [&loop](uint32_t n_tokens) { return loop.drafted_pass_rows(n_tokens); }, least_gain),
      unguessed_steps_(device.info().is_hardware_gpu ? kGpuSteps : 1),
      statistics_(n_slots) {
  source.prepare(n_slots, n_ctx);
  guesses_.reserve(n_slots);
  short_guesses_.reserve(n_slots);
  drafts_.reserve(n_slots);
}

void Speculation::start(uint32_t slot, const Sampling& sampling, std::span<const TokenBias> bias,
                        const std::function<bool()>& is_cancelled) {
  // A grammar may have forced tokens after the prompt.
  const auto prompt = loop_.tokens(slot).first(loop_.state(slot).first_sampled);
  source_.start(slot, prompt, sampling, bias, is_cancelled);
  planner_.start(slot);
  statistics_[slot] = {};
}

void Speculation::advance(uint32_t n_passes, bool may_draft) {
  for (uint32_t n = 0; n < n_passes;) {
    begin_guesses();
    if (guesses_.empty()) return;
    if (may_draft) draft();
    n += run(may_draft ? std::min(unguessed_steps_, n_passes - n) : n_passes - n);
    for (const Guess& guess : guesses_) take(guess);
  }
}

void Speculation::begin_guesses() {
  guesses_.clear();
  for (uint32_t slot = 0; slot < statistics_.size(); ++slot) {
    if (!loop_.is_running(slot)) continue;
    const SequenceState& state = loop_.state(slot);
    Guess& guess = guesses_.emplace_back();
    guess.slot = slot;
    guess.text = loop_.tokens(slot);
    guess.tokens[0] = guess.text.back();
    guess.most = std::min(kMostDraftedRows, state.max_sampled - state.n_sampled) - 1;
    guess.is_complete = guess.most == 0;
  }
}

void Speculation::draft() {
  for (Guess& guess : guesses_) {
    if (guess.is_complete) continue;
    source_.begin(guess);
    limit(guess);
  }
  for (uint32_t n_added = 0;; ++n_added) {
    planner_.plan(guesses_, n_added);
    short_guesses_.clear();
    for (Guess& guess : guesses_) {
      if (guess.n_drafted > guess.n) short_guesses_.push_back(&guess);
    }
    if (short_guesses_.empty()) return;
    const auto start = SteadyClock::now();
    source_.extend(short_guesses_);
    for (Guess* const guess : short_guesses_) limit(*guess);
    planner_.add_drafting(guesses_.size(), seconds_from(start));
  }
}

void Speculation::limit(Guess& guess) {
  const size_t n = loop_.n_allowed_drafts(guess.slot, std::span(guess.tokens).subspan(1, guess.n));
  guess.is_complete |= n < guess.n;
  guess.n = static_cast<uint32_t>(n);
}

uint32_t Speculation::run(uint32_t n_steps) {
  drafts_.clear();
  uint32_t n_tokens = 0;
  bool has_drafts = false;
  for (const Guess& guess : guesses_) {
    drafts_.push_back({guess.slot, std::span(guess.tokens).first(1 + guess.n_drafted)});
    n_tokens += 1 + guess.n_drafted;
    has_drafts |= guess.n_drafted > 0;
  }
  const auto start = SteadyClock::now();
  if (has_drafts) {
    loop_.advance_with_drafts(drafts_);
    planner_.add_pass(guesses_.size(), n_tokens, seconds_from(start));
    return 1;
  }
  loop_.advance(n_steps);
  planner_.add_step(guesses_.size(), seconds_from(start) / n_steps);
  return n_steps;
}

void Speculation::take(const Guess& guess) {
  const size_t n_known = guess.text.size();
  loop_.read_sampled(guess.slot);
  const std::span<const int32_t> sampled = loop_.tokens(guess.slot).subspan(n_known);
  const auto n = static_cast<uint32_t>(std::min<size_t>(guess.n, sampled.size()));
  uint32_t n_equal = 0;
  while (n_equal < n && sampled[n_equal] == guess.tokens[1 + n_equal]) ++n_equal;
  planner_.learn(guess, n_equal, n);
  statistics_[guess.slot].n_drafted += guess.n_drafted;
  statistics_[guess.slot].n_accepted += std::min(n_equal, guess.n_drafted);
}

}  // namespace vesper

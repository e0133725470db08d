#include "llm/generation/draft_planner.h"

#include <algorithm>
#include <numeric>

namespace vesper {
namespace {

// Weight of one token in the acceptance.
constexpr double kLearningRate = 0.1;
// Of a row whose pass has not been measured, relative to the pass without it.
constexpr double kUnknownRowCost = 0.03;
// A time is a mean that follows smaller measurements faster: what disturbs one makes it longer, but
// on a busy machine all are longer.
constexpr double kWeightOfSmaller = 0.3, kWeightOfLonger = 0.1;
// A measurement that is longer than the mean counts as at most this many times it.
constexpr double kMostDisturbance = 3;
// Shares of the way back to the first expectation in a step without a guess. Each guess whose first
// token is wrong halves the share, each other one doubles it.
constexpr double kMostRecovery = 1.0 / 16, kLeastRecovery = 1.0 / 1024;

// Shrinkage of the other times per step, so that what was disturbed is tried and measured again.
constexpr double kTimeDecay = 0.998;
// Times of drafting before they count: the first ones are longer.
constexpr uint32_t kDraftingTrials = 4;

void approach(double& value, double to, double share) { value += share * (to - value); }

void add_time(double& seconds, double measured) {
  if (seconds == 0) seconds = measured;
  approach(seconds, std::min(measured, kMostDisturbance * seconds),
           measured < seconds ? kWeightOfSmaller : kWeightOfLonger);
}

}  // namespace

DraftPlanner::DraftPlanner(uint32_t n_slots,
                           const std::array<double, kGuessClasses>& first_acceptance,
                           std::function<uint32_t(uint32_t)> pass_rows, double least_gain)
    : first_acceptance_(first_acceptance),
      first_expected_(std::accumulate(first_acceptance.begin(), first_acceptance.end(), 0.0) /
                      kGuessClasses),
      pass_rows_(std::move(pass_rows)),
      least_gain_(least_gain),
      slots_(n_slots) {}

void DraftPlanner::start(uint32_t slot) {
  slots_[slot] = {first_acceptance_, first_expected_, kMostRecovery};
}

void DraftPlanner::add_step(size_t n_running, double seconds) {
  if (n_running >= step_s_.size()) return;
  add_time(step_s_[n_running], seconds);
  drafting_s_[n_running] *= kTimeDecay;
  for (double& pass_s : pass_s_) pass_s *= kTimeDecay;
}

void DraftPlanner::add_pass(size_t n_running, uint32_t n_tokens, double seconds) {
  add_time(pass_s_[pass_rows_(n_tokens)], seconds);
  step_s_[n_running] *= kTimeDecay;
}

void DraftPlanner::add_drafting(size_t n_running, double seconds) {
  // The first ones are longer.
  if (++n_draftings_ == kDraftingTrials) drafting_s_.fill(0);
  add_time(drafting_s_[n_running], seconds);
}

double DraftPlanner::seconds_of(uint32_t n_tokens, double step_s) const {
  const uint32_t n = pass_rows_(n_tokens);
  if (pass_s_[n] > 0) return std::max(pass_s_[n], step_s);
  uint32_t known = n;
  while (known > 0 && pass_s_[known] == 0) --known;
  const double seconds = known > 0 ? pass_s_[known] : step_s;
  return std::max(seconds, step_s) * (1 + kUnknownRowCost * (n - known));
}

double DraftPlanner::acceptance(const Guess& guess, uint32_t index) const {
  const Slot& slot = slots_[guess.slot];
  if (index < guess.n) return slot.acceptance[guess.classes[index]];
  return guess.is_complete || index >= guess.most ? 0 : slot.expected;
}

void DraftPlanner::plan(std::span<Guess> guesses, uint32_t n_added) const {
  for (Guess& guess : guesses) guess.n_drafted = 0;
  if (guesses.size() >= kMostDraftedRows) return;
  const auto n_running = static_cast<uint32_t>(guesses.size());
  const double step_s = step_s_[n_running];
  if (step_s == 0) return;  // the first pass is a step
  std::array<uint32_t, kMostDraftedRows> counts{};
  std::array<double, kMostDraftedRows> reached;  // probability that all counted are accepted
  reached.fill(1);
  const double drafting_s = n_draftings_ < kDraftingTrials ? 0 : drafting_s_[n_running];
  double seconds = n_added * drafting_s, n_tokens = n_running;
  double best = least_gain_ * n_tokens / (seconds + step_s);
  uint32_t n_missing = 0;  // tokens to add to the guesses
  // Adds the likeliest token again and again.
  for (uint32_t n_rows = n_running + 1; n_rows <= kMostDraftedRows; ++n_rows) {
    double likeliest = 0;
    uint32_t next = 0;
    for (uint32_t i = 0; i < n_running; ++i) {
      const double probability = reached[i] * acceptance(guesses[i], counts[i]);
      if (probability <= likeliest) continue;
      likeliest = probability;
      next = i;
    }
    if (likeliest == 0) return;
    reached[next] = likeliest;
    n_tokens += likeliest;
    if (++counts[next] > guesses[next].n + n_missing) {
      ++n_missing;
      seconds += drafting_s;
    }
    const double rate = n_tokens / (seconds + seconds_of(n_rows, step_s));
    if (rate <= best) continue;
    best = rate;
    for (uint32_t i = 0; i < n_running; ++i) guesses[i].n_drafted = counts[i];
  }
}

void DraftPlanner::learn(const Guess& guess, uint32_t n_equal, uint32_t n) {
  Slot& slot = slots_[guess.slot];
  if (n == 0) {
    approach(slot.expected, first_expected_, slot.recovery);
    return;
  }
  for (uint32_t i = 0; i < std::min(n_equal + 1, n); ++i) {
    const double found = i < n_equal ? 1 : 0;
    approach(slot.acceptance[guess.classes[i]], found, kLearningRate);
    approach(slot.expected, found, kLearningRate);
  }
  slot.recovery =
      std::clamp(slot.recovery * (n_equal > 0 ? 2 : 0.5), kLeastRecovery, kMostRecovery);
}

}  // namespace vesper

#include "llm/generation/speculation.h"

#include <algorithm>
#include <chrono>

namespace vesper {
namespace {

// Least lengths of the matches of each class, and the acceptance that a text starts with.
constexpr uint32_t kLeastLengths[] = {2, 3, 4, 6, 12};
constexpr double kFirstAcceptance[] = {0.35, 0.5, 0.65, 0.8, 0.9};
// Weight of one token in the acceptance.
constexpr double kLearningRate = 0.1;
// A pass with drafts must promise this much more tokens per second than a step.
constexpr double kLeastGain = 1.05;
// Of a row whose pass has not been measured, relative to the pass without it.
constexpr double kUnknownRowCost = 0.03;
// Growth of a measured time per pass, so that it follows a context that becomes longer. Smaller
// times replace it: what disturbs a measurement makes it longer.
constexpr double kTimeGrowth = 1.02;
// Steps of a GPU between two looks of the host, where nothing is guessed.
constexpr uint32_t kGpuSteps = 4;

void add_time(double& seconds, double measured) {
  seconds = seconds == 0 ? measured : std::min(measured, seconds * kTimeGrowth);
}

}  // namespace

Speculation::Speculation(const Device& device, DecodingLoop& loop, uint32_t n_slots, uint32_t n_ctx)
    : loop_(loop),
      unguessed_steps_(device.info().is_hardware_gpu ? kGpuSteps : 1),
      counts_(n_slots) {
  slots_.reserve(n_slots);
  for (uint32_t slot = 0; slot < n_slots; ++slot) slots_.emplace_back(n_ctx);
  running_.reserve(n_slots);
  drafts_.reserve(n_slots);
}

void Speculation::start(uint32_t slot) {
  Slot& at = slots_[slot];
  const std::span<const int32_t> text = loop_.tokens(slot);
  at.lookup.clear();
  at.lookup.extend(text);
  std::ranges::copy(kFirstAcceptance, at.acceptance.begin());
  at.n_known = static_cast<uint32_t>(text.size());
  at.statistics = {};
}

void Speculation::advance(uint32_t n_passes, bool may_draft) {
  for (uint32_t n = 0; n < n_passes;) {
    running_.clear();
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
      if (!loop_.is_running(slot)) continue;
      running_.push_back(slot);
      slots_[slot].n_guessed = slots_[slot].n_drafted = 0;
      if (may_draft) guess(slot);
    }
    if (running_.empty()) return;
    if (may_draft) plan();
    n += run(may_draft ? std::min(unguessed_steps_, n_passes - n) : n_passes - n);
    for (const uint32_t slot : running_) take(slot);
  }
}

void Speculation::guess(uint32_t slot) {
  Slot& at = slots_[slot];
  const std::span<const int32_t> text = loop_.tokens(slot);
  at.tokens[0] = text.back();
  const SequenceState& state = loop_.state(slot);
  const uint32_t n_left = state.max_sampled - state.n_sampled;
  const NgramLookup::Match match = at.lookup.find(text);
  if (match.length == 0 || n_left < 2) return;
  at.n_guessed = std::min(kMostRows, n_left) - 1;
  NgramLookup::continue_from(match, text, std::span(at.tokens).subspan(1, at.n_guessed));
  at.match_class = kClasses - 1;
  while (match.length < kLeastLengths[at.match_class]) --at.match_class;
}

double Speculation::seconds_of(uint32_t n_rows) const {
  const uint32_t n = loop_.drafted_pass_rows(n_rows);
  if (pass_s_[n] > 0) return pass_s_[n];
  uint32_t known = n;
  while (known > 0 && pass_s_[known] == 0) --known;
  const double seconds = known > 0 ? pass_s_[known] : step_s_;
  return std::max(seconds, step_s_) * (1 + kUnknownRowCost * (n - known));
}

void Speculation::plan() {
  const auto n_running = static_cast<uint32_t>(running_.size());
  if (step_s_ == 0) return;  // the first pass is a step
  std::ranges::fill(counts_, 0);
  double n_tokens = n_running, best = kLeastGain * n_tokens / step_s_;
  // Adds the likeliest token again and again. A token counts if all before it are accepted.
  for (uint32_t n_rows = n_running + 1; n_rows <= kMostRows; ++n_rows) {
    double likeliest = 0;
    uint32_t next = 0;
    for (const uint32_t slot : running_) {
      const Slot& at = slots_[slot];
      if (counts_[slot] == at.n_guessed) continue;
      double probability = at.acceptance[at.match_class];
      for (uint32_t i = 0; i < counts_[slot]; ++i) probability *= at.acceptance[at.match_class];
      if (probability <= likeliest) continue;
      likeliest = probability;
      next = slot;
    }
    if (likeliest == 0) return;
    ++counts_[next];
    n_tokens += likeliest;
    const double rate = n_tokens / seconds_of(n_rows);
    if (rate <= best) continue;
    best = rate;
    for (const uint32_t slot : running_) slots_[slot].n_drafted = counts_[slot];
  }
}

uint32_t Speculation::run(uint32_t n_steps) {
  drafts_.clear();
  uint32_t n_rows = 0;
  bool has_drafts = false, has_guesses = false;
  for (const uint32_t slot : running_) {
    Slot& at = slots_[slot];
    drafts_.push_back({slot, std::span(at.tokens).first(1 + at.n_drafted)});
    n_rows += 1 + at.n_drafted;
    has_drafts |= at.n_drafted > 0;
    has_guesses |= at.n_guessed > 0;
  }
  const auto start = std::chrono::steady_clock::now();
  if (has_drafts) {
    loop_.advance_with_drafts(drafts_);
    n_steps = 1;
  } else {
    loop_.advance(n_steps);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  add_time(has_drafts ? pass_s_[loop_.drafted_pass_rows(n_rows)] : step_s_,
           seconds.count() / n_steps);
  return n_steps;
}

void Speculation::take(uint32_t slot) {
  Slot& at = slots_[slot];
  loop_.read_sampled(slot);
  const std::span<const int32_t> text = loop_.tokens(slot), sampled = text.subspan(at.n_known);
  const auto n = std::min<size_t>(at.n_guessed, sampled.size());
  double& acceptance = at.acceptance[at.match_class];
  uint32_t n_equal = 0;
  for (; n_equal < n && sampled[n_equal] == at.tokens[1 + n_equal]; ++n_equal) {
    acceptance += kLearningRate * (1 - acceptance);
  }
  if (n_equal < n) acceptance -= kLearningRate * acceptance;
  at.statistics.n_drafted += at.n_drafted;
  at.statistics.n_accepted += std::min(n_equal, at.n_drafted);
  at.lookup.extend(text);
  at.n_known = static_cast<uint32_t>(text.size());
}

}  // namespace vesper

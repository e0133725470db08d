// sampling_filters: the interval of logits that the filters keep. One sequence per task.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "llm/cpu/prepared_command.h"
#include "llm/cpu/sampling/token_rules.h"

namespace vesper {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kBins = 4096;

// A token for a filter.
struct FilterToken {
  float value;   // the filter takes tokens in descending order
  float weight;  // 1, or exp(logit - the greatest)
};

// Increases with the value.
uint32_t bin_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return ((bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u) >> 20;
}

// Takes the tokens with the greatest values until their weights sum to `target`; returns the last
// value. Sorts only the bin in which that happens. Reorders the tokens.
float least_taken(std::span<FilterToken> tokens, double target, double* bins) {
  std::fill_n(bins, kBins, 0.0);
  for (const FilterToken& c : tokens) bins[bin_of(c.value)] += double{c.weight};
  double taken = 0;
  uint32_t bin = kBins - 1;
  while (bin > 0 && taken + bins[bin] < target) taken += bins[bin--];
  const auto end = std::partition(tokens.begin(), tokens.end(),
                                  [&](const FilterToken& c) { return bin_of(c.value) == bin; });
  std::sort(tokens.begin(), end,
            [](const FilterToken& a, const FilterToken& b) { return a.value > b.value; });
  float last = -kInfinity;
  for (auto c = tokens.begin(); c != end; ++c) {
    last = c->value;
    taken += double{c->weight};
    if (taken >= target) break;
  }
  return last;
}

// The interval of one sequence's logits after each filter.
class KeptLogits {
 public:
  KeptLogits(std::span<const float> logits, double* bins, FilterToken* tokens)
      : logits_(logits),
        bins_(bins),
        tokens_(tokens),
        greatest_(*std::max_element(logits.begin(), logits.end())) {}

  float lowest() const { return lowest_; }
  float highest() const { return highest_; }

  void top_k(uint32_t k) {
    const auto tokens = gather([](float logit, float) { return FilterToken{logit, 1.0f}; });
    lowest_ = least_taken(tokens, k, bins_);
  }

  void top_p(float p) {
    double sum = 0;
    const auto tokens = gather([&](float logit, float weight) {
      sum += double{weight};
      return FilterToken{logit, weight};
    });
    lowest_ = std::max(lowest_, least_taken(tokens, sum * double{p}, bins_));
  }

  // Meister et al., "Locally Typical Sampling" (2022).
  void typical(float p) {
    double sum = 0, weighted = 0;
    for_left([&](float logit, float weight) {
      sum += double{weight};
      weighted += double{weight} * double{logit - greatest_};
    });
    const double log_sum = std::log(sum), entropy = log_sum - weighted / sum;
    const auto typicality = [&](float logit) {
      return static_cast<float>(-std::abs(log_sum - double{logit - greatest_} - entropy));
    };
    const auto tokens = gather([&](float logit, float weight) {
      return FilterToken{typicality(logit), weight};
    });
    const float least = least_taken(tokens, sum * double{p}, bins_);
    float low = kInfinity, high = -kInfinity;
    for_left([&](float logit, float) {
      if (typicality(logit) < least) return;
      low = std::min(low, logit);
      high = std::max(high, logit);
    });
    lowest_ = low;
    highest_ = greatest_ = high;
  }

  void min_p(float p) { lowest_ = std::max(lowest_, greatest_ + std::log(p)); }

 private:
  template <class Body>
  void for_left(const Body& body) const {
    for (const float logit : logits_) {
      if (logit >= lowest_ && logit <= highest_ && logit > -kInfinity) {
        body(logit, std::exp(logit - greatest_));
      }
    }
  }
  template <class Make>
  std::span<FilterToken> gather(const Make& make) const {
    size_t n = 0;
    for_left([&](float logit, float weight) { tokens_[n++] = make(logit, weight); });
    return {tokens_, n};
  }

  std::span<const float> logits_;
  double* bins_;
  FilterToken* tokens_;
  float lowest_ = -kInfinity, highest_ = kInfinity;
  float greatest_;
};

// The logits for the filters; with token rules or a mask a copy in which masked tokens have -inf.
std::span<const float> allowed_logits(const PreparedCommand& command, uint32_t s, float* copy) {
  const auto& params = command.params_as<SamplingParams>();
  const float* const logits = command.operand<const float>(1) + size_t{s} * params.row_stride;
  const auto* const suppressed = command.operand<const uint32_t>(2);
  const SequenceState& state = command.operand<const SequenceState>(0)[s];
  const uint32_t* const mask = mask_of(command.operand<const uint32_t>(3), params, state, s);
  if (suppressed == nullptr && mask == nullptr) return {logits, params.n_vocab};
  std::fill_n(copy, params.n_vocab, -kInfinity);
  const AllowedIds allowed = allowed_ids(params, state, suppressed != nullptr);
  for (const IdRange ids : {allowed.text, allowed.timestamp}) {
    if (ids.first >= ids.end) continue;
    copy_allowed(logits, ids, suppressed, allowed, copy + ids.first);
    if (mask != nullptr) apply_mask(mask, ids, copy + ids.first);
  }
  return {copy, params.n_vocab};
}

void run_sampling_filters(const PreparedCommand& command, uint32_t s, ThreadScratch& scratch) {
  const auto& params = command.params_as<SamplingParams>();
  SequenceState& state = command.operand<SequenceState>(0)[s];
  if (state.finished) return;
  state.lowest = -kInfinity;
  state.highest = kInfinity;
  if (!(state.temperature > 0)) return;
  const bool has_top_k = state.top_k > 0 && state.top_k < params.n_vocab;
  if (!has_top_k && state.typical_p >= 1 && state.top_p >= 1 && !(state.min_p > 0)) return;
  auto* const bins = reinterpret_cast<double*>(scratch.data);
  auto* const tokens = reinterpret_cast<FilterToken*>(bins + kBins);
  auto* const copy = reinterpret_cast<float*>(tokens + params.n_vocab);
  KeptLogits kept(allowed_logits(command, s, copy), bins, tokens);
  if (has_top_k) kept.top_k(state.top_k);
  if (state.typical_p < 1) kept.typical(state.typical_p);
  if (state.top_p < 1) kept.top_p(state.top_p);
  if (state.min_p > 0) kept.min_p(state.min_p);
  state.lowest = kept.lowest();
  state.highest = kept.highest();
}

}  // namespace

void prepare_sampling_filters(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<SamplingParams>();
  command.require(params.n_sequences > 0 && params.n_vocab > 0, "a size is zero");
  command.require(params.timestamp_begin <= params.n_vocab,
                  "timestamps begin after the last token");
  command.require_bytes(0, uint64_t{params.n_sequences} * sizeof(SequenceState));
  command.require_bytes(
      1, (uint64_t{params.n_sequences - 1} * params.row_stride + params.n_vocab) * 4);
  const uint64_t mask_bytes = (uint64_t{params.n_vocab} + 31) / 32 * 4;
  command.require_bytes(2, mask_bytes, true);
  command.require_bytes(3, params.n_sequences * mask_bytes, true);
  prepared.run = run_sampling_filters;
  prepared.n_tasks = params.n_sequences;
  prepared.scratch_bytes =
      kBins * sizeof(double) + params.n_vocab * (sizeof(FilterToken) + sizeof(float));
}

}  // namespace vesper

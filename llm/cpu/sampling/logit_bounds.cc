// adjust_logits and logit_bounds: what may be chosen of a sequence's logits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "llm/cpu/prepared_command.h"

namespace vesper {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kBins = 4096;

void run_adjust_logits(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<DrawParams>();
  const uint32_t s = task / params.n_chunks, first = task % params.n_chunks * params.chunk;
  const uint32_t end = std::min(first + params.chunk, params.n_vocab);
  const GenerationState& state = command.operand<const GenerationState>(1)[s];
  if (state.finished) return;
  float* logits = command.operand<float>(0) + size_t{s} * params.n_vocab;
  const int32_t* counts = command.operand<const int32_t>(2);
  if (counts != nullptr) counts += size_t{s} * params.n_vocab;
  const float* bias = command.operand<const float>(3);
  for (uint32_t id = first; id < end; ++id) {
    if (bias != nullptr) logits[id] += bias[id];
    if (counts == nullptr || counts[id] <= 0) continue;
    logits[id] = logits[id] > 0 ? logits[id] / state.repetition_penalty
                                : logits[id] * state.repetition_penalty;
    logits[id] -= static_cast<float>(counts[id]) * state.frequency_penalty + state.presence_penalty;
  }
}

// A token as a filter sees it.
struct Candidate {
  float value;   // by which the filter orders
  float weight;  // 1, or exp(logit - the greatest)
};

// Greater numbers fall into greater bins.
uint32_t bin_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return ((bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u) >> 20;
}

// The tokens with the greatest values are taken until their weights come to `target`: the value of
// the last. Only the bin in which that happens is sorted. Spoils the candidates.
float select(std::span<Candidate> candidates, double target, double* bins) {
  std::fill_n(bins, kBins, 0.0);
  for (const Candidate& c : candidates) bins[bin_of(c.value)] += double{c.weight};
  double taken = 0;
  uint32_t bin = kBins - 1;
  while (bin > 0 && taken + bins[bin] < target) taken += bins[bin--];
  const auto end = std::partition(candidates.begin(), candidates.end(),
                                  [&](const Candidate& c) { return bin_of(c.value) == bin; });
  std::sort(candidates.begin(), end,
            [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
  float last = -kInfinity;
  for (auto c = candidates.begin(); c != end; ++c) {
    last = c->value;
    taken += double{c->weight};
    if (taken >= target) break;
  }
  return last;
}

// The logits of a sequence that are left, and what the filters take from them.
class Bounds {
 public:
  Bounds(std::span<const float> logits, std::byte* scratch)
      : logits_(logits),
        bins_(reinterpret_cast<double*>(scratch)),
        candidates_(reinterpret_cast<Candidate*>(bins_ + kBins)),
        greatest_(*std::max_element(logits.begin(), logits.end())) {}

  float lowest() const { return lowest_; }
  float highest() const { return highest_; }

  void keep_top_k(uint32_t k) {
    const auto candidates = gather([](float logit, float) { return Candidate{logit, 1.0f}; });
    lowest_ = select(candidates, k, bins_);
  }

  void keep_top_p(float p) {
    double sum = 0;
    const auto candidates = gather([&](float logit, float weight) {
      sum += double{weight};
      return Candidate{logit, weight};
    });
    lowest_ = std::max(lowest_, select(candidates, sum * double{p}, bins_));
  }

  // Meister et al., "Locally Typical Sampling" (2022).
  void keep_typical(float p) {
    double sum = 0, weighted = 0;
    for_left([&](float logit, float weight) {
      sum += double{weight};
      weighted += double{weight} * double{logit - greatest_};
    });
    const double log_sum = std::log(sum), entropy = log_sum - weighted / sum;
    const auto typicality = [&](float logit) {
      return static_cast<float>(-std::abs(log_sum - double{logit - greatest_} - entropy));
    };
    const auto candidates = gather([&](float logit, float weight) {
      return Candidate{typicality(logit), weight};
    });
    const float least = select(candidates, sum * double{p}, bins_);
    float low = kInfinity, high = -kInfinity;
    for_left([&](float logit, float) {
      if (typicality(logit) < least) return;
      low = std::min(low, logit);
      high = std::max(high, logit);
    });
    lowest_ = low;
    highest_ = greatest_ = high;
  }

  void keep_min_p(float p) { lowest_ = std::max(lowest_, greatest_ + std::log(p)); }

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
  std::span<Candidate> gather(const Make& make) const {
    size_t n = 0;
    for_left([&](float logit, float weight) { candidates_[n++] = make(logit, weight); });
    return {candidates_, n};
  }

  std::span<const float> logits_;
  double* bins_;
  Candidate* candidates_;
  float lowest_ = -kInfinity, highest_ = kInfinity;
  float greatest_;
};

void run_logit_bounds(const PreparedCommand& command, uint32_t s, ThreadScratch& scratch) {
  const auto& params = command.params_as<DrawParams>();
  GenerationState& state = command.operand<GenerationState>(0)[s];
  if (state.finished) return;
  state.lowest = -kInfinity;
  state.highest = kInfinity;
  if (!(state.temperature > 0)) return;
  const bool has_top_k = state.top_k > 0 && state.top_k < params.n_vocab;
  if (!has_top_k && state.typical_p >= 1 && state.top_p >= 1 && !(state.min_p > 0)) return;
  Bounds bounds({command.operand<const float>(1) + size_t{s} * params.n_vocab, params.n_vocab},
                scratch.data);
  if (has_top_k) bounds.keep_top_k(state.top_k);
  if (state.typical_p < 1) bounds.keep_typical(state.typical_p);
  if (state.top_p < 1) bounds.keep_top_p(state.top_p);
  if (state.min_p > 0) bounds.keep_min_p(state.min_p);
  state.lowest = bounds.lowest();
  state.highest = bounds.highest();
}

}  // namespace

void prepare_adjust_logits(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<DrawParams>();
  command.require(params.n_sequences > 0 && params.n_vocab > 0 && params.chunk > 0,
                  "a size is zero");
  command.require(params.n_chunks == (params.n_vocab + params.chunk - 1) / params.chunk,
                  "chunks must cover the vocabulary");
  const uint64_t n = uint64_t{params.n_sequences} * params.n_vocab;
  command.require_bytes(0, n * 4);
  command.require_bytes(1, params.n_sequences * sizeof(GenerationState));
  command.require_bytes(2, n * 4, true);
  command.require_bytes(3, uint64_t{params.n_vocab} * 4, true);
  prepared.run = run_adjust_logits;
  prepared.n_tasks = params.n_sequences * params.n_chunks;
}

void prepare_logit_bounds(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<DrawParams>();
  command.require(params.n_sequences > 0 && params.n_vocab > 0, "a size is zero");
  command.require_bytes(0, params.n_sequences * sizeof(GenerationState));
  command.require_bytes(1, uint64_t{params.n_sequences} * params.n_vocab * 4);
  prepared.run = run_logit_bounds;
  prepared.n_tasks = params.n_sequences;
  prepared.scratch_bytes = kBins * sizeof(double) + params.n_vocab * sizeof(Candidate);
}

}  // namespace vesper

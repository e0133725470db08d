// Sampling on a device compared with the definitions of its filters, on known logits: many
// sequences sample at once with different seeds, and a chi-squared test compares frequencies with
// probabilities.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "llm/table/device.h"

namespace vesper::test {

class SamplingCheck {
 public:
  SamplingCheck(Device& device, uint32_t n_sequences, uint32_t n_rounds)
      : device_(device), n_(n_sequences), n_rounds_(n_rounds) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0.0f, 2.0f);
    for (uint32_t i = 0; i < kVocabulary; ++i) logits_.push_back(normal(random));
    logits_[3] = logits_[50] = 3.0f;  // ties
    logits_[9] = -INFINITY;
  }

  static SequenceState plain() {
    SequenceState state{};
    state.max_sampled = 3;
    state.temperature = 1;
    state.typical_p = state.top_p = state.repetition_penalty = 1;
    state.penalty_window = 64;
    return state;
  }

  // Samples n_sequences * n_rounds tokens, each after two earlier tokens (token 5 twice), and
  // compares them with the definition.
  // `allowed`: the tokens of the mask; empty: no mask.
  void draws_as_defined(const SequenceState& sampling, const std::vector<float>& bias = {},
                        const std::vector<uint32_t>& allowed = {}) {
    allowed_ = allowed;
    const std::vector<double> wanted = probabilities(sampling, bias);
    std::vector<uint64_t> found(kVocabulary, 0);
    for (uint32_t round = 0; round < n_rounds_; ++round) {
      for (const int32_t token : draw(sampling, bias, round)) ++found[static_cast<size_t>(token)];
    }
    const double n = static_cast<double>(n_) * n_rounds_;
    double chi_squared = 0, rest_wanted = 0, rest_found = 0;
    uint32_t n_cells = 0;
    const auto add = [&](double observed, double expected) {
      chi_squared += (observed - expected) * (observed - expected) / expected;
      ++n_cells;
    };
    for (uint32_t i = 0; i < kVocabulary; ++i) {
      if (wanted[i] == 0) {
        ASSERT_EQ(found[i], 0u) << "token " << i << " was to be left out";
      } else if (wanted[i] * n < 10) {
        rest_wanted += wanted[i] * n;
        rest_found += static_cast<double>(found[i]);
      } else {
        add(static_cast<double>(found[i]), wanted[i] * n);
      }
    }
    if (rest_wanted > 5) add(rest_found, rest_wanted);
    // The mean of the distribution is its degrees of freedom, its variance twice that. Five
    // deviations above the mean have a probability below 1e-4 even for few cells.
    const double freedom = std::max(1.0, n_cells - 1.0);
    EXPECT_LT(chi_squared, freedom + 5 * std::sqrt(2 * freedom) + 5) << n_cells << " cells";
    EXPECT_GE(n_cells, 1u);
  }

  // Temperature 0 gives the most probable token, the lowest id of equal ones.
  void greedy() {
    SequenceState state = plain();
    state.temperature = 0;
    const auto best = std::max_element(logits_.begin(), logits_.end()) - logits_.begin();
    for (const int32_t token : draw(state, {}, 0)) ASSERT_EQ(token, best);
  }

  // The mask of every third sequence has only a token with a logit of -inf, that of every other
  // third two tokens, and those of the rest, which are empty, do not count.
  void masks_of_sequences() {
    SequenceState state = plain();
    state.temperature = 0;
    std::vector<uint32_t> masks;
    for (uint32_t s = 0; s < n_; ++s) {
      const uint32_t words[3][3] = {{1u << 9, 0, 0}, {1u << 7, 0, 1u << 5}, {0, 0, 0}};
      masks.insert(masks.end(), words[s % 3], words[s % 3] + 3);
    }
    run(state, {}, 0);  // allocates
    device_.write(masks_, masks.data());
    std::vector<SequenceState> states(n_);
    for (uint32_t s = 0; s < n_; ++s) {
      states[s] = state;
      states[s].has_mask = s % 3 < 2;
    }
    device_.write(states_, states.data());
    device_.run(program_);
    std::vector<int32_t> tokens(n_ * kStride);
    device_.read(tokens_, tokens.data());
    const auto best = std::max_element(logits_.begin(), logits_.end()) - logits_.begin();
    for (uint32_t s = 0; s < n_; ++s) {
      const int64_t wanted = s % 3 == 0 ? 9 : s % 3 == 2 ? best : logits_[7] > logits_[69] ? 7 : 69;
      ASSERT_EQ(tokens[s * kStride], wanted) << s;
    }
  }

  // The log-probability.
  void advances() {
    allowed_.clear();
    SequenceState state = plain();
    state.max_sampled = 2;
    run(state, {}, 1);
    std::vector<SequenceState> states(n_);
    device_.read(states_, states.data());
    std::vector<float> logprobs(n_ * kStride);
    device_.read(logprobs_, logprobs.data());
    std::vector<Row> rows(n_);
    device_.read(rows_, rows.data());
    const std::vector<int32_t> tokens = read_tokens();
    const std::vector<double> all = probabilities(plain(), {});
    for (uint32_t s = 0; s < n_; ++s) {
      const int32_t token = tokens[s];
      const bool is_end = token == kEnd;
      ASSERT_EQ(states[s].finished, is_end ? 1u : 0u);
      ASSERT_EQ(states[s].n_sampled, 1u);
      ASSERT_EQ(rows[s].sequence, is_end ? -1 : static_cast<int>(s));
      if (!is_end) {
        ASSERT_EQ(rows[s].token, token);
        ASSERT_EQ(rows[s].position, 2);
      }
      ASSERT_NEAR(logprobs[s * kStride + 2], std::log(all[static_cast<size_t>(token)]), 1e-4);
    }
  }

  static constexpr uint32_t kVocabulary = 70;

 private:
  static constexpr uint32_t kStride = 5, kChunk = 32;
  static constexpr int32_t kEnd = 50;

  void run(const SequenceState& sampling, const std::vector<float>& bias, uint32_t round) {
    const uint32_t n_chunks = (kVocabulary + kChunk - 1) / kChunk;
    if (!logits_buffer_.present()) {
      logits_buffer_ = device_.allocate(4ull * n_ * kVocabulary, "logits");
      states_ = device_.allocate(n_ * sizeof(SequenceState), "states");
      rows_ = device_.allocate(n_ * sizeof(Row), "rows");
      tokens_ = device_.allocate(4ull * n_ * kStride, "tokens");
      logprobs_ = device_.allocate(4ull * n_ * kStride, "logprobs");
      bias_ = device_.allocate(uint64_t{n_} * kMostBias * sizeof(TokenBias), "bias");
      masks_ = device_.allocate(12ull * n_, "masks");
      stop_ = device_.allocate(4, "stop");
      stop_ids_ = device_.allocate(12, "stop ids");
      const Operand partials = device_.allocate(n_ * n_chunks * sizeof(TokenPartial), "partials");
      SamplingParams params{};
      params.n_sequences = n_;
      params.n_vocab = params.row_stride = params.timestamp_begin = kVocabulary;
      params.n_chunks = n_chunks;
      params.chunk = kChunk;
      params.max_tokens = kStride;
      params.has_filters = 1;
      DispatchTable table;
      emit::adjust_logits(table, "adjust", params, logits_buffer_, states_, tokens_, bias_);
      emit::sampling_filters(table, "filters", params, states_, logits_buffer_, {}, masks_);
      emit::sample_partials(table, "partials", params, partials, logits_buffer_, states_, {}, {},
                            masks_);
      emit::sample_token(table, "sample", params, states_, rows_, tokens_, logprobs_, stop_,
                         partials, stop_ids_);
      program_ = device_.record(table);
      const uint32_t stop_ids[3] = {0, 1u << (kEnd - 32), 0};
      device_.write(stop_ids_, stop_ids);
    }
    std::vector<float> logits;
    std::vector<SequenceState> states(n_, sampling);
    const std::vector<int32_t> tokens(n_ * kStride, kRepeated);
    for (uint32_t s = 0; s < n_; ++s) {
      logits.insert(logits.end(), logits_.begin(), logits_.end());
      states[s].first_sampled = 2;
      states[s].position = 2;
      states[s].seed = round * n_ + s;
    }
    // In descending order of tokens, and an entry beyond the list.
    std::vector<TokenBias> list;
    for (size_t i = bias.size(); i-- > 0;) list.push_back({static_cast<uint32_t>(i), bias[i]});
    list.push_back({2, 100});
    std::vector<uint32_t> masks;
    for (uint32_t s = 0; s < n_; ++s) {
      states[s].n_bias = static_cast<uint32_t>(bias.size());
      states[s].has_mask = !allowed_.empty();
      std::array<uint32_t, 3> words{};
      for (const uint32_t id : allowed_) words[id / 32] |= 1u << id % 32;
      masks.insert(masks.end(), words.begin(), words.end());
      device_.write(
          bias_.part(uint64_t{s} * kMostBias * sizeof(TokenBias), list.size() * sizeof(TokenBias)),
          list.data());
    }
    device_.write(masks_, masks.data());
    device_.write(logits_buffer_, logits.data());
    device_.write(states_, states.data());
    device_.write(tokens_, tokens.data());
    device_.run(program_);
  }

  std::vector<int32_t> read_tokens() {
    std::vector<int32_t> tokens(n_ * kStride), drawn;
    device_.read(tokens_, tokens.data());
    for (uint32_t s = 0; s < n_; ++s) drawn.push_back(tokens[s * kStride + 2]);
    return drawn;
  }

  std::vector<int32_t> draw(const SequenceState& sampling, const std::vector<float>& bias,
                            uint32_t round) {
    run(sampling, bias, round);
    return read_tokens();
  }

  static std::vector<double> softmax(const std::vector<double>& logits, double temperature) {
    std::vector<double> result(logits.size());
    const double greatest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      sum += result[i] = std::exp((logits[i] - greatest) / temperature);
    }
    for (double& p : result) p /= sum;
    return result;
  }

  // Keeps the first tokens of an order up to probability `p`, and ties of the last.
  static void keep(std::vector<double>& logits, const std::vector<double>& order, double p) {
    const std::vector<double> all = softmax(logits, 1);
    std::vector<size_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), size_t{0});
    std::stable_sort(ids.begin(), ids.end(),
                     [&](size_t a, size_t b) { return order[a] > order[b]; });
    double sum = 0, last = 0;
    for (const size_t id : ids) {
      if (sum >= p && order[id] < last) logits[id] = -INFINITY;
      if (sum < p) last = order[id];
      sum += all[id];
    }
  }

  std::vector<double> probabilities(const SequenceState& s, const std::vector<float>& bias) const {
    std::vector<double> logits(logits_.begin(), logits_.end());
    for (size_t i = 0; i < bias.size(); ++i) logits[i] += bias[i];
    double& repeated = logits[kRepeated];
    repeated = repeated > 0 ? repeated / s.repetition_penalty : repeated * s.repetition_penalty;
    repeated -= 2 * s.frequency_penalty + s.presence_penalty;
    for (uint32_t id = 0; !allowed_.empty() && id < logits.size(); ++id) {
      const bool is_allowed = std::ranges::find(allowed_, id) != allowed_.end();
      logits[id] = is_allowed ? std::max(logits[id], double{kLeastAllowedLogit}) : -INFINITY;
    }
    if (s.top_k > 0) {
      std::vector<double> sorted = logits;
      std::sort(sorted.rbegin(), sorted.rend());
      for (double& logit : logits) {
        if (logit < sorted[s.top_k - 1]) logit = -INFINITY;
      }
    }
    if (s.typical_p < 1) {
      const std::vector<double> p = softmax(logits, 1);
      double entropy = 0;
      for (const double each : p) entropy -= each > 0 ? each * std::log(each) : 0;
      std::vector<double> order;
      for (const double each : p) order.push_back(-std::abs(-std::log(each) - entropy));
      keep(logits, order, double{s.typical_p});
    }
    if (s.top_p < 1) keep(logits, logits, double{s.top_p});
    if (s.min_p > 0) {
      const double greatest = *std::max_element(logits.begin(), logits.end());
      for (double& logit : logits) {
        if (logit < greatest + std::log(double{s.min_p})) logit = -INFINITY;
      }
    }
    return softmax(logits, double{s.temperature});
  }

  static constexpr uint32_t kRepeated = 5;

  Device& device_;
  uint32_t n_, n_rounds_;
  std::vector<float> logits_;
  std::vector<uint32_t> allowed_;
  Operand logits_buffer_, states_, rows_, tokens_, logprobs_, bias_, masks_, stop_, stop_ids_;
  ProgramId program_ = 0;
};

// Every filter alone, then together.
inline void check_every_sampler(SamplingCheck& check) {
  const auto with = [](const auto& change) {
    SequenceState state = SamplingCheck::plain();
    change(state);
    return state;
  };
  const std::pair<const char*, SequenceState> samplers[] = {
      {"temperature 1", with([](SequenceState&) {})},
      {"temperature 0.5", with([](SequenceState& s) { s.temperature = 0.5f; })},
      {"temperature 3", with([](SequenceState& s) { s.temperature = 3; })},
      {"top-k 1", with([](SequenceState& s) { s.top_k = 1; })},
      {"top-k 7", with([](SequenceState& s) { s.top_k = 7; })},
      {"top-p 0.3", with([](SequenceState& s) { s.top_p = 0.3f; })},
      {"top-p 0.9", with([](SequenceState& s) { s.top_p = 0.9f; })},
      {"min-p 0.2", with([](SequenceState& s) { s.min_p = 0.2f; })},
      {"typical 0.4", with([](SequenceState& s) { s.typical_p = 0.4f; })},
      {"repetition", with([](SequenceState& s) { s.repetition_penalty = 2; })},
      {"frequency", with([](SequenceState& s) { s.frequency_penalty = -1; })},
      {"presence", with([](SequenceState& s) { s.presence_penalty = -3; })},
      {"all", with([](SequenceState& s) {
         s.top_k = 30;
         s.typical_p = 0.95f;
         s.top_p = 0.8f;
         s.min_p = 0.05f;
         s.temperature = 1.5f;
         s.presence_penalty = -2;
       })}};
  for (const auto& [name, state] : samplers) {
    SCOPED_TRACE(name);
    check.draws_as_defined(state);
  }
  SCOPED_TRACE("bias");
  check.draws_as_defined(SamplingCheck::plain(), {-INFINITY, 3, 0, 0, 2});
  SCOPED_TRACE("fewer tokens than top-k");
  std::vector<float> three(SamplingCheck::kVocabulary, -INFINITY);
  for (const size_t token : {2, 9, 30}) three[token] = 0;
  check.draws_as_defined(with([](SequenceState& s) { s.top_k = 7; }), three);
  // Token 9 has a logit of -inf, and token 5 occurred before.
  std::vector<uint32_t> odd = {9};
  for (uint32_t id = 5; id < 70; id += 2) odd.push_back(id);
  const std::vector<uint32_t> masks[] = {odd, {31, 32, 64, 69}, {9}, {0}};
  for (const std::vector<uint32_t>& allowed : masks) {
    SCOPED_TRACE("a mask of " + std::to_string(allowed.size()));
    check.draws_as_defined(SamplingCheck::plain(), {}, allowed);
    check.draws_as_defined(samplers[std::size(samplers) - 1].second, {-INFINITY, 1}, allowed);
  }
}

}  // namespace vesper::test

// adjust_logits on a device compared with plain loops, for CTranslate2's penalties.
// sampling_check.h has those of llama.cpp.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "llm/table/device.h"

namespace vesper::test {

// The penalties on the logits of one sequence, as CTranslate2 describes them: each of the last
// `window` sampled tokens counts once; then no n-gram is repeated.
inline void penalize_plainly(std::vector<float>& logits, const std::vector<int32_t>& chosen,
                             float penalty, size_t window, size_t ngram) {
  const auto n = static_cast<std::ptrdiff_t>(std::min(window, chosen.size()));
  for (const int32_t token : std::set<int32_t>(chosen.end() - n, chosen.end())) {
    float& logit = logits[static_cast<size_t>(token)];
    if (penalty != 1) logit = logit < 0 ? logit * penalty : logit / penalty;
  }
  if (ngram == 0) return;
  for (size_t token = 0; token < logits.size(); ++token) {
    std::vector<int32_t> text = chosen;
    text.push_back(static_cast<int32_t>(token));
    if (text.size() < ngram) continue;
    const std::vector<int32_t> run(text.end() - static_cast<std::ptrdiff_t>(ngram), text.end());
    const auto found = std::search(text.begin(), text.end() - 1, run.begin(), run.end());
    if (found != text.end() - 1) logits[token] = -INFINITY;
  }
}

// `tolerance` is relative.
inline void check_adjust_logits(Device& device, uint32_t seed, float tolerance) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int trial = 0; trial < 30; ++trial) {
    SamplingParams params{};
    params.n_sequences = 1 + below(6);
    params.n_vocab = 1 + below(trial % 2 ? 12 : 700);  // tokens repeat often
    params.row_stride = params.n_vocab + below(9);
    params.max_tokens = 1 + below(trial % 3 ? 40 : 448);
    std::vector<float> logits(size_t{params.n_sequences} * params.row_stride);
    std::normal_distribution<float> normal(0.0f, 4.0f);
    for (float& logit : logits) logit = below(20) == 0 ? 0.0f : normal(random);
    std::vector<SequenceState> states(params.n_sequences);
    std::vector<int32_t> tokens(size_t{params.n_sequences} * params.max_tokens);
    for (int32_t& token : tokens) token = static_cast<int32_t>(below(params.n_vocab));
    std::vector<float> expected = logits;
    for (uint32_t s = 0; s < params.n_sequences; ++s) {
      SequenceState& state = states[s];
      state = {};
      state.finished = below(5) == 0;
      state.n_sampled = below(params.max_tokens + 1);
      const float penalties[] = {1.0f, 1.3f, 0.5f, 20.0f};
      state.repetition_penalty = penalties[below(4)];
      state.penalty_window = below(params.max_tokens + 2);
      // Some of the sampled tokens may belong to a prompt.
      state.first_sampled = below(state.n_sampled + 1);
      state.n_sampled -= state.first_sampled;
      state.no_repeat_ngram_size = below(5);
      if (state.finished) continue;
      const auto first = expected.begin() + static_cast<std::ptrdiff_t>(s * params.row_stride);
      std::vector<float> row(first, first + static_cast<std::ptrdiff_t>(params.n_vocab));
      const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(s * params.max_tokens);
      penalize_plainly(
          row, {begin, begin + static_cast<std::ptrdiff_t>(state.first_sampled + state.n_sampled)},
          state.repetition_penalty, state.penalty_window, state.no_repeat_ngram_size);
      std::copy(row.begin(), row.end(), first);
    }
    const auto store = [&](const auto& values, const char* label) {
      const Operand buffer = device.allocate(values.size() * sizeof(values[0]), label);
      device.write(buffer, values.data());
      return buffer;
    };
    const Operand held = store(logits, "logits");
    DispatchTable table;
    emit::adjust_logits(table, "adjust_logits", params, held, store(states, "states"),
                        store(tokens, "tokens"), {});
    device.run(device.record(table));
    std::vector<float> found(logits.size());
    device.read(held, found.data());
    for (size_t i = 0; i < found.size(); ++i) {
      if (std::isinf(expected[i])) {
        ASSERT_EQ(found[i], expected[i]) << "trial " << trial << " at " << i;
      } else {
        ASSERT_NEAR(found[i], expected[i], tolerance * std::abs(expected[i]))
            << "trial " << trial << " at " << i;
      }
    }
  }
}

}  // namespace vesper::test

// Shared by sample_token and select_beams: merged chunks of one sequence, and its next state.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "llm/cpu/prepared_command.h"
#include "shaders/kernel_params.h"

namespace vesper {

inline constexpr TokenCandidate kNoCandidate{-INFINITY, std::numeric_limits<uint32_t>::max()};
inline constexpr TokenPartial kNothing{-INFINITY, 0, -INFINITY, -INFINITY,
                                       std::numeric_limits<uint32_t>::max()};

// Inserts a candidate into a descending list, after equal ones, and drops the last element, which
// must be less.
inline void insert_candidate(std::span<TokenCandidate> list, TokenCandidate candidate) {
  size_t i = list.size() - 1;
  for (; i > 0 && list[i - 1].logit < candidate.logit; --i) list[i] = list[i - 1];
  list[i] = candidate;
}

// Merged chunks of text tokens or of timestamps.
struct Merged {
  float max = -INFINITY;
  double sum = 0.0;  // of exp(logit - max)
  float key = -INFINITY, logit = -INFINITY;
  uint32_t token = 0;

  void add(const TokenPartial& chunk) {
    if (!(chunk.max > -INFINITY)) return;
    if (chunk.max > max) {
      sum = sum * std::exp(static_cast<double>(max) - chunk.max) + chunk.sum;
      max = chunk.max;
    } else {
      sum += chunk.sum * std::exp(static_cast<double>(chunk.max) - max);
    }
    if (chunk.key > key) {
      key = chunk.key;
      logit = chunk.logit;
      token = chunk.token;
    }
  }
  bool any() const { return max > -INFINITY; }
  double log_sum() const { return any() ? max + std::log(sum) : -INFINITY; }
};

// Text, timestamps, and the timestamp rule that needs both.
struct MergedTokens {
  Merged text, timestamp;
  bool only_timestamps;  // all timestamps together are likelier than the best text token
  double log_sum;        // log of the sum of exp(logit) over the allowed tokens

  MergedTokens(const TokenPartial* partials, uint32_t n_chunks, uint32_t n_text) {
    for (uint32_t c = 0; c < n_chunks; ++c) (c < n_text ? text : timestamp).add(partials[c]);
    const double text_log = text.log_sum(), timestamp_log = timestamp.log_sum();
    only_timestamps = timestamp.any() && timestamp_log > text.max;
    log_sum = timestamp_log;
    if (only_timestamps || !text.any()) return;
    const double larger = std::max(text_log, timestamp_log);
    log_sum = larger + std::log(std::exp(text_log - larger) + std::exp(timestamp_log - larger));
  }
};

// Updates the state after `token` was sampled.
inline void advance_state(SequenceState& state, uint32_t token, uint32_t timestamp_begin) {
  const bool is_timestamp = token >= timestamp_begin;
  state.penultimate_was_timestamp = state.n_sampled < 1 || state.last_was_timestamp;
  state.last_was_timestamp = is_timestamp;
  if (is_timestamp) state.last_timestamp = token;
  ++state.n_sampled;
}

inline bool is_in_mask(const uint32_t* mask, uint32_t id) { return mask[id / 32] >> id % 32 & 1u; }

inline void require_sampling_params(const SamplingParams& params, const CommandToPrepare& command) {
  command.require(params.n_sequences > 0 && params.n_vocab > 0 && params.chunk > 0,
                  "a size is zero");
  command.require(params.timestamp_begin <= params.n_vocab,
                  "timestamps begin after the last token");
  command.require(
      params.n_chunks == n_token_chunks(params.n_vocab, params.timestamp_begin, params.chunk),
      "the chunks do not cover the vocabulary");
}

}  // namespace vesper

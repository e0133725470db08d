// What token_choose and beam_choose make of the chunks of one sequence's logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "shaders/kernel_params.h"

namespace vesper {

inline constexpr TokenCandidate kNoCandidate{-INFINITY, std::numeric_limits<uint32_t>::max()};

// Puts a candidate into a list in falling order, behind its equals; the last of the list, which has
// to be less, falls out.
inline void insert_candidate(std::span<TokenCandidate> list, TokenCandidate candidate) {
  size_t place = list.size() - 1;
  for (; place > 0 && list[place - 1].logit < candidate.logit; --place)
    list[place] = list[place - 1];
  list[place] = candidate;
}

// What the chunks of one kind of token come to.
struct Merged {
  float max = -INFINITY;
  double sum = 0.0;  // of exp(logit - max)
  float key = -INFINITY, logit = -INFINITY;
  uint32_t token = 0;

  void add(float chunk_max, float chunk_sum, float chunk_key, float chunk_logit,
           uint32_t chunk_token) {
    if (!(chunk_max > -INFINITY)) return;
    if (chunk_max > max) {
      sum = sum * std::exp(static_cast<double>(max) - chunk_max) + chunk_sum;
      max = chunk_max;
    } else {
      sum += chunk_sum * std::exp(static_cast<double>(chunk_max) - max);
    }
    if (chunk_key > key) {
      key = chunk_key;
      logit = chunk_logit;
      token = chunk_token;
    }
  }
  bool any() const { return max > -INFINITY; }
  double log_sum() const { return any() ? max + std::log(sum) : -INFINITY; }
};

// The token rules' last step, and what the probabilities of the tokens it leaves refer to.
struct MergedTokens {
  Merged text, timestamp;
  bool only_timestamps;  // together they are likelier than any other token
  double together;       // log of the sum of exp(logit) over the tokens that are left

  MergedTokens(const TokenPartial* partials, uint32_t n_chunks) {
    for (uint32_t c = 0; c < n_chunks; ++c) {
      const TokenPartial& p = partials[c];
      text.add(p.text_max, p.text_sum, p.text_key, p.text_logit, p.text_token);
      timestamp.add(p.timestamp_max, p.timestamp_sum, p.timestamp_key, p.timestamp_logit,
                    p.timestamp_token);
    }
    const double text_log = text.log_sum(), timestamp_log = timestamp.log_sum();
    only_timestamps = timestamp.any() && timestamp_log > text.max;
    together = timestamp_log;
    if (only_timestamps || !text.any()) return;
    const double larger = std::max(text_log, timestamp_log);
    together = larger + std::log(std::exp(text_log - larger) + std::exp(timestamp_log - larger));
  }
};

}  // namespace vesper

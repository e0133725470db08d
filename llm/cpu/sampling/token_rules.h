// Whisper's token rules: the ids that a sequence may sample next (openai-whisper, decoding.py:
// SuppressTokens, SuppressBlank, ApplyTimestampRules), and no end of text before speech_end. The
// bit mask of a sequence.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "shaders/kernel_params.h"

namespace vesper {

// Ids [first, end).
struct IdRange {
  uint32_t first, end;
  IdRange within(IdRange other) const {
    return {std::max(first, other.first), std::min(end, other.end)};
  }
};

// The id ranges that a sequence's state allows. Other rules mask single ids in them.
struct AllowedIds {
  IdRange text, timestamp;
  uint32_t left_out[3];
};

inline AllowedIds allowed_ids(const SamplingParams& params, const SequenceState& state,
                              bool has_rules) {
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  AllowedIds allowed{{0, params.timestamp_begin}, {params.timestamp_begin, params.n_vocab}, {}};
  std::fill_n(allowed.left_out, 3, kNone);
  if (!has_rules) return allowed;
  const bool is_first = state.n_sampled == 0;
  bool end_of_text = !is_first;
  if (!state.timestamps) {
    allowed.timestamp = {0, 0};
  } else {
    const bool last = !is_first && state.last_was_timestamp;
    const bool penultimate = state.penultimate_was_timestamp;
    if (last && penultimate) {
      allowed.timestamp = {0, 0};  // a pair is complete: text follows
    } else if (last) {
      allowed.text.first = params.end_of_text;  // half a pair: the other half or the end follows
    }
    if (last && state.last_timestamp < state.speech_end) end_of_text = false;
    if (state.last_timestamp != 0) {
      // The second timestamp of a pair may repeat the first; otherwise time increases.
      const uint32_t least = last && !penultimate ? state.last_timestamp : state.last_timestamp + 1;
      allowed.timestamp.first = std::max(allowed.timestamp.first, least);
    }
    if (is_first) {
      allowed.text = {0, 0};
      allowed.timestamp.end = std::min(allowed.timestamp.end, state.max_initial_timestamp + 1);
    }
  }
  allowed.left_out[0] = params.no_timestamps;
  if (is_first) allowed.left_out[1] = params.blank;
  if (!end_of_text) allowed.left_out[2] = params.end_of_text;
  return allowed;
}

// values[i] = the logit of id ids.first + i, -inf if a rule masks it. `suppressed` is a bit mask of
// ids, or null. The range is not empty.
inline void copy_allowed(const float* logits, IdRange ids, const uint32_t* suppressed,
                         const AllowedIds& allowed, float* values) {
  std::copy(logits + ids.first, logits + ids.end, values);
  if (suppressed == nullptr) return;
  for (uint32_t word = ids.first / 32; word <= (ids.end - 1) / 32; ++word) {
    for (uint32_t bits = suppressed[word]; bits != 0; bits &= bits - 1) {
      const uint32_t id = word * 32 + static_cast<uint32_t>(std::countr_zero(bits));
      if (id >= ids.first && id < ids.end) values[id - ids.first] = -INFINITY;
    }
  }
  for (const uint32_t id : allowed.left_out) {
    if (id >= ids.first && id < ids.end) values[id - ids.first] = -INFINITY;
  }
}

// Sets values[i], of id ids.first + i, to -inf if the id is not in the bit mask `allowed`, and to
// at least kLeastAllowedLogit otherwise. The range is not empty.
inline void apply_mask(const uint32_t* allowed, IdRange ids, float* values) {
  for (uint32_t word = ids.first / 32; word <= (ids.end - 1) / 32; ++word) {
    const IdRange in_word = ids.within({word * 32, word * 32 + 32});
    float* const of_word = values + (in_word.first - ids.first);
    const uint32_t n = in_word.end - in_word.first, bits = allowed[word] >> in_word.first % 32;
    if (bits == 0) std::fill_n(of_word, n, -INFINITY);
    for (uint32_t i = 0; bits != 0 && i < n; ++i) {
      of_word[i] = (bits >> i & 1u) != 0 ? std::max(of_word[i], kLeastAllowedLogit) : -INFINITY;
    }
  }
}

// The bit mask of sequence `s` in the operand `allowed`; null if it has none.
inline const uint32_t* mask_of(const uint32_t* allowed, const SamplingParams& params,
                               const SequenceState& state, uint32_t s) {
  return allowed != nullptr && state.has_mask ? allowed + size_t{s} * ((params.n_vocab + 31) / 32)
                                              : nullptr;
}

}  // namespace vesper

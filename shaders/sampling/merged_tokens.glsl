// Shared by sample_token and select_beams: merged chunks of one sequence, and its next state.
#ifndef VESPER_SHADERS_MERGED_TOKENS_GLSL_
#define VESPER_SHADERS_MERGED_TOKENS_GLSL_

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "buffers.glsl"

// Merged chunks of text tokens or of timestamps.
struct Merged {
  float greatest, sum;  // highest logit; sum of exp(logit - greatest)
  float key, logit;     // highest key, and the logit of its token
  uint token;           // lowest id with that key
};

void merge(inout Merged all, TokenPartial chunk) {
  if (chunk.max == kMinusInfinity) return;
  if (chunk.max > all.greatest) {
    all.sum =
        (all.greatest == kMinusInfinity ? 0.0 : all.sum * exp(all.greatest - chunk.max)) + chunk.sum;
    all.greatest = chunk.max;
  } else {
    all.sum += chunk.sum * exp(chunk.max - all.greatest);
  }
  if (chunk.key > all.key || (chunk.key == all.key && chunk.token < all.token)) {
    all.key = chunk.key;
    all.logit = chunk.logit;
    all.token = chunk.token;
  }
}

Merged merge_subgroup(Merged mine) {
  Merged all;
  all.greatest = subgroupMax(mine.greatest);
  all.sum = subgroupAdd(mine.greatest == kMinusInfinity
                            ? 0.0
                            : mine.sum * exp(mine.greatest - all.greatest));
  all.key = subgroupMax(mine.key);
  all.token = subgroupMin(mine.key == all.key ? mine.token : 0xffffffffu);
  bool has_it = mine.key == all.key && mine.token == all.token;
  all.logit = subgroupMax(has_it ? mine.logit : kMinusInfinity);
  return all;
}

// Text, timestamps, and the timestamp rule that needs both.
struct MergedTokens {
  Merged text, timestamp;
  bool only_timestamps;  // all timestamps together are likelier than the best text token
  float log_sum;         // log of the sum of exp(logit) over the allowed tokens
};

// Merges n_chunks chunks from `first` on, of which the first n_text are text. Called by all lanes
// of a subgroup; all get the result.
MergedTokens merged_tokens(Address partials, uint first, uint n_chunks, uint n_text) {
  Merged text = Merged(kMinusInfinity, 0.0, kMinusInfinity, kMinusInfinity, 0xffffffffu);
  Merged timestamp = text;
  for (uint c = gl_SubgroupInvocationID; c < n_chunks; c += gl_SubgroupSize) {
    TokenPartial chunk = PartialBuffer(partials).v[first + c];
    if (c < n_text) {
      merge(text, chunk);
    } else {
      merge(timestamp, chunk);
    }
  }
  text = merge_subgroup(text);
  timestamp = merge_subgroup(timestamp);
  bool any_timestamp = timestamp.greatest != kMinusInfinity;
  float timestamp_log_sum =
      any_timestamp ? timestamp.greatest + log(timestamp.sum) : kMinusInfinity;
  bool only_timestamps = timestamp_log_sum > text.greatest;
  float log_sum = timestamp_log_sum;
  if (!only_timestamps) {
    float sum = text.sum;
    if (any_timestamp) sum += timestamp.sum * exp(timestamp.greatest - text.greatest);
    log_sum = text.greatest + log(sum);
  }
  return MergedTokens(text, timestamp, only_timestamps, log_sum);
}

// Updates the state after `token` was sampled.
void advance_state(inout SequenceState state, uint token, uint timestamp_begin) {
  state.penultimate_was_timestamp = state.n_sampled == 0 ? 1 : state.last_was_timestamp;
  state.last_was_timestamp = token >= timestamp_begin ? 1 : 0;
  if (token >= timestamp_begin) state.last_timestamp = token;
  state.n_sampled += 1;
}

bool is_in_mask(Address mask, uint id) {
  return (U32Buffer(mask).v[id / 32] >> (id % 32) & 1u) != 0;
}

#endif

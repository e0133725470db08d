// What token_choose and beam_choose make of the chunks of one sequence's logits.
#ifndef VESPER_SHADERS_MERGED_TOKENS_GLSL_
#define VESPER_SHADERS_MERGED_TOKENS_GLSL_

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "buffers.glsl"

// What the chunks of one kind of token come to.
struct Merged {
  float greatest, sum;  // of the logits; of exp(logit - greatest)
  float key, logit;     // the greatest key, and its token's logit
  uint token;           // the lowest id that has it
};

void merge(inout Merged all, float greatest, float sum, float key, float logit, uint token) {
  if (greatest == kMinusInfinity) return;
  if (greatest > all.greatest) {
    all.sum = (all.greatest == kMinusInfinity ? 0.0 : all.sum * exp(all.greatest - greatest)) + sum;
    all.greatest = greatest;
  } else {
    all.sum += sum * exp(greatest - all.greatest);
  }
  if (key > all.key || (key == all.key && token < all.token)) {
    all.key = key;
    all.logit = logit;
    all.token = token;
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

// The token rules' last step, and what the probabilities of the tokens it leaves refer to.
struct MergedTokens {
  Merged text, timestamp;
  bool only_timestamps;  // together they are likelier than any other token
  float together;        // log of the sum of exp(logit) over the tokens that are left
};

// Of the chunks from `first` on; by a whole subgroup, which all gets the answer.
MergedTokens merged_tokens(Address partials, uint first, uint n_chunks, uint end_of_text) {
  Merged text = Merged(kMinusInfinity, 0.0, kMinusInfinity, kMinusInfinity, end_of_text);
  Merged timestamp = text;
  for (uint c = gl_SubgroupInvocationID; c < n_chunks; c += gl_SubgroupSize) {
    TokenPartial partial = PartialBuffer(partials).v[first + c];
    merge(text, partial.text_max, partial.text_sum, partial.text_key, partial.text_logit,
          partial.text_token);
    merge(timestamp, partial.timestamp_max, partial.timestamp_sum, partial.timestamp_key,
          partial.timestamp_logit, partial.timestamp_token);
  }
  text = merge_subgroup(text);
  timestamp = merge_subgroup(timestamp);
  bool any_timestamp = timestamp.greatest != kMinusInfinity;
  float timestamp_together =
      any_timestamp ? timestamp.greatest + log(timestamp.sum) : kMinusInfinity;
  bool only_timestamps = timestamp_together > text.greatest;
  float together = timestamp_together;
  if (!only_timestamps) {
    float sum = text.sum;
    if (any_timestamp) sum += timestamp.sum * exp(timestamp.greatest - text.greatest);
    together = text.greatest + log(sum);
  }
  return MergedTokens(text, timestamp, only_timestamps, together);
}

#endif

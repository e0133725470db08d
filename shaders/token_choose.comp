// token_choose: merges the partials of each sequence and advances it. One workgroup; each of its
// subgroups takes every n-th sequence.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push {
  Address states, rows, tokens, stop, partials;
  TokenParams p;
};

shared uint unfinished;

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

void main() {
  if (gl_LocalInvocationID.x == 0) unfinished = 0;
  barrier();
  for (uint s = gl_SubgroupID; s < p.n_sequences; s += gl_NumSubgroups) {
    SequenceState state = StateBuffer(states).v[s];
    if (state.finished != 0) continue;
    Merged text = Merged(kMinusInfinity, 0.0, kMinusInfinity, kMinusInfinity, p.end_of_text);
    Merged timestamp = text;
    for (uint c = gl_SubgroupInvocationID; c < p.n_chunks; c += gl_SubgroupSize) {
      TokenPartial partial = PartialBuffer(partials).v[s * p.n_chunks + c];
      merge(text, partial.text_max, partial.text_sum, partial.text_key, partial.text_logit,
            partial.text_token);
      merge(timestamp, partial.timestamp_max, partial.timestamp_sum, partial.timestamp_key,
            partial.timestamp_logit, partial.timestamp_token);
    }
    text = merge_subgroup(text);
    timestamp = merge_subgroup(timestamp);
    if (!subgroupElect()) continue;
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
    bool take_timestamp = only_timestamps || timestamp.key > text.key;
    uint token = take_timestamp ? timestamp.token : text.token;
    float chosen = take_timestamp ? timestamp.logit : text.logit;
    if (chosen != kMinusInfinity) state.sum_logprob += chosen - together;

    if (state.n_sampled < p.max_tokens) {
      I32Buffer(tokens).v[s * p.max_tokens + state.n_sampled] = int(token);
    }
    state.penultimate_was_timestamp = state.n_sampled == 0 ? 1 : state.last_was_timestamp;
    state.last_was_timestamp = token >= p.timestamp_begin ? 1 : 0;
    if (token >= p.timestamp_begin) state.last_timestamp = token;
    state.n_sampled += 1;
    Row next = Row(int(token), int(s), state.position, 0);
    state.position += 1;
    if (token == p.end_of_text || state.n_sampled >= state.max_sampled) {
      state.finished = 1;
      next = Row(0, -1, 0, 0);
    }
    StateBuffer(states).v[s] = state;
    RowBuffer(rows).v[s] = next;
    if (state.finished == 0) atomicOr(unfinished, 1u);
  }
  barrier();
  if (gl_LocalInvocationID.x == 0 && unfinished == 0) U32Buffer(stop).v[0] = 1;
}

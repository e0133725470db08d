// token_choose: merges the partials of each sequence and advances it. One workgroup; each of its
// subgroups takes every n-th sequence.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "merged_tokens.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push {
  Address states, rows, tokens, stop, partials;
  TokenParams p;
};

shared uint unfinished;

void main() {
  if (gl_LocalInvocationID.x == 0) unfinished = 0;
  barrier();
  for (uint s = gl_SubgroupID; s < p.n_sequences; s += gl_NumSubgroups) {
    SequenceState state = StateBuffer(states).v[s];
    if (state.is_beam != 0) {
      // A group that goes on has a first beam.
      if (state.finished == 0 && subgroupElect()) atomicOr(unfinished, 1u);
      continue;
    }
    if (state.finished != 0) continue;
    MergedTokens merged = merged_tokens(partials, s * p.n_chunks, p.n_chunks, p.end_of_text);
    if (!subgroupElect()) continue;
    bool take_timestamp = merged.only_timestamps || merged.timestamp.key > merged.text.key;
    uint token = take_timestamp ? merged.timestamp.token : merged.text.token;
    float chosen = take_timestamp ? merged.timestamp.logit : merged.text.logit;
    if (chosen != kMinusInfinity) state.sum_logprob += chosen - merged.together;

    if (state.n_sampled < p.max_tokens) {
      I32Buffer(tokens).v[s * p.max_tokens + state.n_sampled] = int(token);
    }
    state.penultimate_was_timestamp = state.n_sampled == 0 ? 1 : state.last_was_timestamp;
    state.last_was_timestamp = token >= p.timestamp_begin ? 1 : 0;
    if (token >= p.timestamp_begin) state.last_timestamp = token;
    state.n_sampled += 1;
    state.copy_rows = 0;
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

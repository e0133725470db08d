// sample_token: the next token of every sequence that is not a beam. One workgroup; each of its n
// subgroups takes every n-th sequence.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "merged_tokens.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool kLogprobs = false;  // has the operand `logprobs`

layout(push_constant) uniform Push {
  Address states, rows, tokens, logprobs, stop, partials, stop_ids;
  SamplingParams p;
};

shared uint unfinished;

void main() {
  if (gl_LocalInvocationID.x == 0) unfinished = 0;
  barrier();
  for (uint s = gl_SubgroupID; s < p.n_sequences; s += gl_NumSubgroups) {
    SequenceState state = StateBuffer(states).v[s];
    if (state.is_beam != 0) {
      // The first beam of an unfinished group is unfinished.
      if (state.finished == 0 && subgroupElect()) atomicOr(unfinished, 1u);
      continue;
    }
    if (state.finished != 0) continue;
    MergedTokens merged = merged_tokens(partials, s * p.n_chunks, p.n_chunks,
                                        n_text_chunks(p.timestamp_begin, p.chunk));
    if (!subgroupElect()) continue;
    bool takes_timestamp = merged.timestamp.key != kMinusInfinity &&
                           (merged.only_timestamps || merged.timestamp.key > merged.text.key);
    uint token = takes_timestamp ? merged.timestamp.token : merged.text.token;
    float logit = takes_timestamp ? merged.timestamp.logit : merged.text.logit;
    float logprob = logit - merged.log_sum;
    if (logit == kMinusInfinity) {
      token = min(p.end_of_text, p.n_vocab - 1);
      logprob = 0.0;
    }
    uint index = state.first_sampled + state.n_sampled;
    if (index < p.max_tokens) {
      I32Buffer(tokens).v[s * p.max_tokens + index] = int(token);
      if (kLogprobs) F32Buffer(logprobs).v[s * p.max_tokens + index] = logprob;
    }
    state.sum_logprob += logprob;
    advance_state(state, token, p.timestamp_begin);
    state.copy_rows = 0;
    Row next = Row(int(token), int(s), state.position, 0);
    state.position += 1;
    if (is_in_mask(stop_ids, token) || state.n_sampled >= state.max_sampled) {
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

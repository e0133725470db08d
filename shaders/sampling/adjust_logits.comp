// adjust_logits: bias, penalties, no repeated n-grams. One workgroup per sequence.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kPresent = 0;  // 1: tokens, 2: bias, 4: drafts

layout(push_constant) uniform Push {
  Address logits, states, tokens, bias, drafts;
  SamplingParams p;
};

uint sequence;

uint token_at(uint i) { return uint(I32Buffer(tokens).v[sequence * p.max_tokens + i]); }

// Occurrences of token i in [first, end); 0 if it also occurs before i.
uint occurrences(uint i, uint first, uint end) {
  uint token = token_at(i), n = 0;
  for (uint j = first; j < end; ++j) {
    if (token_at(j) != token) continue;
    if (j < i) return 0;
    ++n;
  }
  return n;
}

// Whether the n tokens from i on equal the last n of `length`.
bool is_the_end(uint i, uint n, uint length) {
  for (uint j = 0; j < n; ++j) {
    if (token_at(i + j) != token_at(length - n + j)) return false;
  }
  return true;
}

void main() {
  uint s = gl_WorkGroupID.x;
  SequenceState state = StateBuffer(states).v[s];
  if (state.finished != 0) return;
  sequence = (kPresent & 4u) != 0 ? uint(RowBuffer(drafts).v[s].sequence) : s;
  uint start = s * p.row_stride;
  if ((kPresent & 2u) != 0) {
    uint n = min(state.n_bias, kMostBias);
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
      TokenBias entry = BiasBuffer(bias).v[sequence * kMostBias + i];
      if (entry.token < p.n_vocab) F32Buffer(logits).v[start + entry.token] += entry.bias;
    }
    memoryBarrierBuffer();
    barrier();
  }
  if ((kPresent & 1u) == 0) return;
  uint length = min(state.first_sampled + state.n_sampled, p.max_tokens);
  if (state.repetition_penalty != 1.0 || state.frequency_penalty != 0.0 ||
      state.presence_penalty != 0.0) {
    uint first = length - min(length, state.penalty_window);
    for (uint i = first + gl_LocalInvocationID.x; i < length; i += gl_WorkGroupSize.x) {
      uint n = token_at(i) < p.n_vocab ? occurrences(i, first, length) : 0;
      if (n == 0) continue;
      float logit = F32Buffer(logits).v[start + token_at(i)];
      logit =
          logit > 0.0 ? logit / state.repetition_penalty : logit * state.repetition_penalty;
      F32Buffer(logits).v[start + token_at(i)] =
          logit - (float(n) * state.frequency_penalty + state.presence_penalty);
    }
  }
  memoryBarrierBuffer();
  barrier();
  uint size = state.no_repeat_ngram_size;
  if (size == 0 || length < size) return;
  for (uint i = gl_LocalInvocationID.x; i <= length - size; i += gl_WorkGroupSize.x) {
    uint token = token_at(i + size - 1);
    if (token < p.n_vocab && is_the_end(i, size - 1, length)) {
      F32Buffer(logits).v[start + token] = kMinusInfinity;
    }
  }
}

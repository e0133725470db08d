// token_penalties: against repetition of the tokens chosen so far. A workgroup a sequence.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push {
  Address logits, states, tokens;
  PenaltyParams p;
};

uint token_at(uint i) { return uint(I32Buffer(tokens).v[gl_WorkGroupID.x * p.max_tokens + i]); }

bool was_before(uint i) {
  uint token = token_at(i);
  for (uint j = 0; j < i; ++j) {
    if (token_at(j) == token) return true;
  }
  return false;
}

// Whether the tokens from i on are the last `n` of `length`.
bool is_the_end(uint i, uint n, uint length) {
  for (uint j = 0; j < n; ++j) {
    if (token_at(i + j) != token_at(length - n + j)) return false;
  }
  return true;
}

void main() {
  SequenceState state = StateBuffer(states).v[gl_WorkGroupID.x];
  if (state.finished != 0) return;
  uint start = gl_WorkGroupID.x * p.row_stride;
  uint length = min(state.n_sampled, p.max_tokens);
  if (state.repetition_penalty != 1.0) {
    for (uint i = gl_LocalInvocationID.x; i < length; i += gl_WorkGroupSize.x) {
      if (token_at(i) >= p.n_vocab || was_before(i)) continue;
      float logit = F32Buffer(logits).v[start + token_at(i)];
      F32Buffer(logits).v[start + token_at(i)] =
          logit < 0.0 ? logit * state.repetition_penalty : logit / state.repetition_penalty;
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

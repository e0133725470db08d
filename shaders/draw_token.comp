// draw_token: merges the partials of each sequence and advances it. One workgroup; each of its
// subgroups takes every n-th sequence.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool kCounts = false;  // there is that operand

layout(push_constant) uniform Push {
  Address states, rows, tokens, logprobs, stop, partials, ends, counts;
  DrawParams p;
};

shared uint unfinished;

void main() {
  if (gl_LocalInvocationID.x == 0) unfinished = 0;
  barrier();
  for (uint s = gl_SubgroupID; s < p.n_sequences; s += gl_NumSubgroups) {
    GenerationState state = GenerationBuffer(states).v[s];
    if (state.finished != 0) continue;
    float greatest = kMinusInfinity, key = kMinusInfinity;
    for (uint c = gl_SubgroupInvocationID; c < p.n_chunks; c += gl_SubgroupSize) {
      greatest = max(greatest, DrawBuffer(partials).v[s * p.n_chunks + c].greatest);
      key = max(key, DrawBuffer(partials).v[s * p.n_chunks + c].key);
    }
    greatest = subgroupMax(greatest);
    key = subgroupMax(key);
    float sum = 0.0;
    uint token = 0xffffffffu;
    for (uint c = gl_SubgroupInvocationID; c < p.n_chunks; c += gl_SubgroupSize) {
      DrawPartial partial = DrawBuffer(partials).v[s * p.n_chunks + c];
      if (partial.greatest > kMinusInfinity) sum += partial.sum * exp(partial.greatest - greatest);
      if (partial.key == key) token = min(token, partial.token);
    }
    sum = subgroupAdd(sum);
    // Nothing can be chosen where every logit is -inf or not a number.
    token = min(subgroupMin(token), p.n_vocab - 1);
    if (!subgroupElect()) continue;
    float logit = DrawBuffer(partials).v[s * p.n_chunks + token / p.chunk].logit;
    uint at = s * p.token_stride + state.n_tokens;
    I32Buffer(tokens).v[at] = int(token);
    F32Buffer(logprobs).v[at] = logit - greatest - log(sum);
    if (kCounts && state.penalty_window > 0) {
      I32Buffer(counts).v[s * p.n_vocab + token] += 1;
      if (state.n_tokens >= state.penalty_window) {
        uint left = uint(I32Buffer(tokens).v[at - state.penalty_window]);
        I32Buffer(counts).v[s * p.n_vocab + left] -= 1;
      }
    }
    Row next = Row(int(token), int(s), int(state.n_tokens), 0);
    state.n_tokens += 1;
    state.n_drawn += 1;
    bool is_end = (U32Buffer(ends).v[token / 32] >> (token % 32) & 1u) != 0;
    if (is_end || state.n_tokens >= state.max_tokens) {
      state.finished = 1;
      next = Row(0, -1, 0, 0);
    }
    GenerationBuffer(states).v[s] = state;
    RowBuffer(rows).v[s] = next;
    if (state.finished == 0) atomicOr(unfinished, 1u);
  }
  barrier();
  if (gl_LocalInvocationID.x == 0 && unfinished == 0) U32Buffer(stop).v[0] = 1;
}

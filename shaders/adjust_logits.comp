// adjust_logits: one token a thread. Grid: (blocks of the vocabulary, sequences).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kPresent = 0;  // 1: counts, 2: bias

layout(push_constant) uniform Push {
  Address logits, states, counts, bias;
  DrawParams p;
};

void main() {
  uint id = gl_GlobalInvocationID.x;
  uint s = gl_WorkGroupID.y;
  if (id >= p.n_vocab || GenerationBuffer(states).v[s].finished != 0) return;
  uint at = s * p.n_vocab + id;
  float logit = F32Buffer(logits).v[at];
  if ((kPresent & 2u) != 0) logit += F32Buffer(bias).v[id];
  int count = (kPresent & 1u) != 0 ? I32Buffer(counts).v[at] : 0;
  if (count > 0) {
    float repetition = GenerationBuffer(states).v[s].repetition_penalty;
    logit = logit > 0.0 ? logit / repetition : logit * repetition;
    logit -= float(count) * GenerationBuffer(states).v[s].frequency_penalty +
             GenerationBuffer(states).v[s].presence_penalty;
  }
  F32Buffer(logits).v[at] = logit;
}

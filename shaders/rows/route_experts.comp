// route_experts: one subgroup per row. Lane i has experts i, i + lanes and so on. Grid: rows.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push {
  Address ids, weights, logits;
  RouteExpertsParams p;
};

void main() {
  uint row = gl_WorkGroupID.x;
  uint first = row * (p.n_experts + p.has_shared);
  uint first_weight = row * (p.n_used + p.has_shared);
  // Bit i of lane l: expert i * lanes + l is chosen. A lane has at most 64 experts.
  uint taken[2] = {0, 0};
  float highest = 0.0, sum = 0.0;
  for (uint c = 0; c < p.n_used; ++c) {
    // A logit that is not a number is below all others.
    float best = kMinusInfinity;
    uint best_id = 0xffffffffu;
    for (uint e = gl_SubgroupInvocationID, i = 0; e < p.n_experts; e += gl_SubgroupSize, ++i) {
      if ((taken[i / 32] >> (i % 32) & 1u) != 0) continue;
      float logit = F32Buffer(logits).v[first + e];
      if (best_id == 0xffffffffu || logit > best) {
        best = logit > kMinusInfinity ? logit : kMinusInfinity;
        best_id = e;
      }
    }
    float most = subgroupMax(best);
    uint id = subgroupMin(best == most ? best_id : 0xffffffffu);
    if (id % gl_SubgroupSize == gl_SubgroupInvocationID) {
      uint i = id / gl_SubgroupSize;
      taken[i / 32] |= 1u << (i % 32);
    }
    if (c == 0) highest = most;
    float weight = exp(most - highest);
    sum += weight;
    if (gl_SubgroupInvocationID == 0) {
      U32Buffer(ids).v[row * p.n_used + c] = id;
      F32Buffer(weights).v[first_weight + c] = weight;
    }
  }
  if (p.normalizes == 0) {
    float own = 0.0;
    for (uint e = gl_SubgroupInvocationID; e < p.n_experts; e += gl_SubgroupSize) {
      own += exp(F32Buffer(logits).v[first + e] - highest);
    }
    sum = subgroupAdd(own);
  }
  if (gl_SubgroupInvocationID != 0) return;
  for (uint c = 0; c < p.n_used; ++c) F32Buffer(weights).v[first_weight + c] /= sum;
  if (p.has_shared != 0) {
    float logit = F32Buffer(logits).v[first + p.n_experts];
    F32Buffer(weights).v[first_weight + p.n_used] = 1.0 / (1.0 + exp(-logit));
  }
}

// combine_experts: one element per thread. Grid: (blocks of columns, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHasShared = 0;

layout(push_constant) uniform Push {
  Address x, in_, weights, shared_;
  CombineExpertsParams p;
};

void main() {
  uint i = gl_GlobalInvocationID.x;
  uint r = gl_WorkGroupID.y;
  if (i >= p.d) return;
  float sum = F32Buffer(x).v[r * p.d + i];
  uint first_weight = r * (p.n_used + kHasShared);
  for (uint c = 0; c < p.n_used; ++c) {
    float weight = F32Buffer(weights).v[first_weight + c];
    sum = fma(weight, F32Buffer(in_).v[(r * p.n_used + c) * p.d + i], sum);
  }
  if (kHasShared != 0) {
    float weight = F32Buffer(weights).v[first_weight + p.n_used];
    sum = fma(weight, F32Buffer(shared_).v[r * p.d + i], sum);
  }
  F32Buffer(x).v[r * p.d + i] = sum;
}

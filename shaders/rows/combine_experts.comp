// combine_experts: one element per thread. Grid: (blocks of columns, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push {
  Address x, in_, weights;
  CombineExpertsParams p;
};

void main() {
  uint i = gl_GlobalInvocationID.x;
  uint r = gl_WorkGroupID.y;
  if (i >= p.d) return;
  float sum = F32Buffer(x).v[r * p.d + i];
  for (uint slot = r * p.n_used; slot < (r + 1) * p.n_used; ++slot) {
    sum = fma(F32Buffer(weights).v[slot], F32Buffer(in_).v[slot * p.d + i], sum);
  }
  F32Buffer(x).v[r * p.d + i] = sum;
}

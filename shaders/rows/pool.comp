// pool: one vector per packed sequence, one workgroup each.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kKind = 0;
layout(constant_id = 2) const uint kNormalize = 0;
layout(constant_id = 3) const uint kDtype = 0;
layout(constant_id = 4) const uint kHasStarts = 0;

layout(push_constant) uniform Push {
  Address out_, in_, starts;
  PoolParams p;
};

float pooled(uint begin, uint end, uint column) {
  if (begin == end) return 0.0;
  if (kKind == kPoolFirst) return load_float(in_, begin * p.d + column, kDtype);
  if (kKind == kPoolLast) return load_float(in_, (end - 1) * p.d + column, kDtype);
  float sum = 0.0;
  for (uint r = begin; r < end; ++r) sum += F32Buffer(in_).v[r * p.d + column];
  return sum / float(end - begin);
}

void main() {
  uint s = gl_WorkGroupID.x;
  uint begin = s, end = s + 1;
  if (kHasStarts != 0) {
    begin = U32Buffer(starts).v[s];
    end = U32Buffer(starts).v[s + 1];
  }
  float squares = 0.0;
  for (uint i = gl_LocalInvocationID.x; i < p.n_out; i += gl_WorkGroupSize.x) {
    float value = pooled(begin, end, i);
    squares += value * value;
    store_float(out_, s * p.n_out + i, kDtype, value);
  }
  if (kNormalize == 0) return;
  float scale = 1.0 / max(sqrt(workgroup_sum(squares)), kPoolLeastLength);
  // Each thread reads back what it wrote itself.
  for (uint i = gl_LocalInvocationID.x; i < p.n_out; i += gl_WorkGroupSize.x) {
    F32Buffer(out_).v[s * p.n_out + i] *= scale;
  }
}

// range_probabilities: softmax over a range of each row's logits; a part of it is written. One
// workgroup per row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHasIds = 0;

layout(push_constant) uniform Push {
  Address out_, logits, ids;
  RangeProbabilitiesParams p;
};

void main() {
  uint thread = gl_LocalInvocationID.x;
  uint start = gl_WorkGroupID.x * p.row_stride;
  float greatest = kMinusInfinity;
  for (uint i = thread; i < p.softmax_count; i += gl_WorkGroupSize.x) {
    greatest = max(greatest, F32Buffer(logits).v[start + p.softmax_first + i]);
  }
  greatest = workgroup_max(greatest);
  float sum = 0.0;
  for (uint i = thread; i < p.softmax_count; i += gl_WorkGroupSize.x) {
    sum += exp(F32Buffer(logits).v[start + p.softmax_first + i] - greatest);
  }
  sum = workgroup_sum(sum);
  uint first = kHasIds != 0 ? U32Buffer(ids).v[gl_WorkGroupID.x] : p.out_first;
  for (uint j = thread; j < p.out_count; j += gl_WorkGroupSize.x) {
    F32Buffer(out_).v[gl_WorkGroupID.x * p.out_count + j] =
        exp(F32Buffer(logits).v[start + first + j] - greatest) / sum;
  }
}

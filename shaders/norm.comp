// norm: layer norm or RMS norm, one workgroup a row. The row is read once and kept in registers:
// kPerThread = ceil(d / threads) values a thread.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "buffers.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kPerThread = 1;
layout(constant_id = 2) const uint kKind = 0;
layout(constant_id = 3) const uint kOutDtype = 0;
layout(constant_id = 4) const uint kPresent = 0;  // 1: bias, 2: index

layout(push_constant) uniform Push {
  Address out_, in_, gain, bias, index;
  NormParams p;
};

void main() {
  uint r = gl_WorkGroupID.x;
  uint source = (kPresent & 2u) != 0 ? U32Buffer(index).v[r] : r;
  float x[kPerThread];
  float sum = 0.0;
  [[unroll]] for (uint i = 0; i < kPerThread; ++i) {
    uint column = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    x[i] = column < p.d ? F32Buffer(in_).v[source * p.d + column] : 0.0;
    sum += x[i];
  }
  float mean = kKind == kNormLayer ? workgroup_sum(sum) / float(p.d) : 0.0;
  float squares = 0.0;
  [[unroll]] for (uint i = 0; i < kPerThread; ++i) {
    uint column = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    float centred = column < p.d ? x[i] - mean : 0.0;
    squares += centred * centred;
  }
  float scale = inversesqrt(workgroup_sum(squares) / float(p.d) + p.epsilon);
  [[unroll]] for (uint i = 0; i < kPerThread; ++i) {
    uint column = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (column < p.d) {
      float value = (x[i] - mean) * scale * F32Buffer(gain).v[column];
      if ((kPresent & 1u) != 0) value += F32Buffer(bias).v[column];
      store_float(out_, r * p.d + column, kOutDtype, value);
    }
  }
}

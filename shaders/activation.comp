// activation: a function of each number by itself, one a thread.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "activations.glsl"
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kActivation = 0;

layout(push_constant) uniform Push {
  Address out_, in_;
  ActivationParams p;
};

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= p.n) return;
  float x = F32Buffer(in_).v[i];
  float y = activate(kActivation, x);
  // Beyond 10 tanh is 1 to every bit; drivers may compute it by powers of e.
  if (kActivation == kActivationSoftCap) y = p.limit * tanh(clamp(x / p.limit, -10.0, 10.0));
  F32Buffer(out_).v[i] = y;
}

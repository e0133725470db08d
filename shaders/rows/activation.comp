// activation: an elementwise function, one element per thread.
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
  // tanh is exactly 1 beyond 10. Drivers may compute it from exponentials that overflow.
  if (kActivation == kActivationSoftCap) y = p.limit * tanh(clamp(x / p.limit, -10.0, 10.0));
  F32Buffer(out_).v[i] = y;
}

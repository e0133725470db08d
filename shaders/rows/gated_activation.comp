// gated_activation: one element per thread. Grid: (blocks of columns, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "activations.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kActivation = 0;
layout(constant_id = 2) const uint kInDtype = 0;
layout(constant_id = 3) const uint kOutDtype = 0;

layout(push_constant) uniform Push {
  Address out_, in_;
  GatedActivationParams p;
};

float gated(float gate, float value) {
  if (kActivation != kActivationClampedSwiGlu) return activate(kActivation, gate) * value;
  gate = min(gate, p.limit);
  return gate * sigmoid(1.702 * gate) * (clamp(value, -p.limit, p.limit) + 1.0);
}

void main() {
  uint i = gl_GlobalInvocationID.x;
  uint r = gl_WorkGroupID.y;
  if (i >= p.d) return;
  uint at = r * 2 * p.d + i;
  store_float(out_, r * p.d + i, kOutDtype,
              gated(load_float(in_, at, kInDtype), load_float(in_, at + p.d, kInDtype)));
}

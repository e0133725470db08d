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

void main() {
  uint i = gl_GlobalInvocationID.x;
  uint r = gl_WorkGroupID.y;
  if (i >= p.d) return;
  uint from = r * 2 * p.d + i;
  float gate = activate(kActivation, load_float(in_, from, kInDtype));
  store_float(out_, r * p.d + i, kOutDtype, gate * load_float(in_, from + p.d, kInDtype));
}

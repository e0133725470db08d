// gated_activation: one number a thread. Grid: (blocks of the columns, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "gelu.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kKind = 0;
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
  float x = load_float(in_, from, kInDtype);
  float gate = x;
  if (kKind == kGateSilu) gate = x * sigmoid(x);
  if (kKind == kGateGelu) gate = gelu(x);
  if (kKind == kGateGeluTanh) gate = gelu_tanh(x);
  store_float(out_, r * p.d + i, kOutDtype, gate * load_float(in_, from + p.d, kInDtype));
}

// magnitude: of complex rows, real parts then imaginary parts, one element per thread.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push {
  Address out_, in_;
  MagnitudeParams p;
};

void main() {
  uint i = gl_GlobalInvocationID.x, r = gl_WorkGroupID.y;
  if (i >= p.n_bins) return;
  float real = F32Buffer(in_).v[r * 2 * p.n_bins + i];
  float imaginary = F32Buffer(in_).v[(r * 2 + 1) * p.n_bins + i];
  uint out_row = r / p.rows_per_batch * p.out_batch_stride + r % p.rows_per_batch * p.n_bins;
  F32Buffer(out_).v[out_row + i] = sqrt(real * real + imaginary * imaginary);
}

// lstm: one workgroup per sequence; each step computes all gates, then the state.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHidden = 16;
const uint kGates = 4 * kHidden;

layout(push_constant) uniform Push {
  Address out_, state, in_, weight;
  LstmParams p;
};

shared float h[kHidden];
shared float c[kHidden];
shared float gates[kGates];

float sigmoid(float x) { return 1.0 / (1.0 + exp(-x)); }
// The built-in one may be made of exponentials that overflow.
float bounded_tanh(float x) { return 1.0 - 2.0 / (1.0 + exp(2.0 * x)); }

void main() {
  uint sequence = gl_WorkGroupID.x, thread = gl_LocalInvocationID.x;
  uint n_threads = gl_WorkGroupSize.x, first = sequence * 2 * kHidden;
  for (uint u = thread; u < kHidden; u += n_threads) {
    h[u] = F32Buffer(state).v[first + u];
    c[u] = F32Buffer(state).v[first + kHidden + u];
  }
  barrier();
  for (uint t = 0; t < p.n_steps; ++t) {
    uint row = sequence * p.n_steps + t;
    for (uint j = thread; j < kGates; j += n_threads) {
      float sum = F32Buffer(in_).v[row * kGates + j];
      uint w = j / kLstmPanel * kHidden * kLstmPanel + j % kLstmPanel;
      for (uint k = 0; k < kHidden; ++k) {
        sum = fma(h[k], F32Buffer(weight).v[w + k * kLstmPanel], sum);
      }
      gates[j] = sum;
    }
    barrier();
    for (uint u = thread; u < kHidden; u += n_threads) {
      c[u] = sigmoid(gates[kHidden + u]) * c[u] +
             sigmoid(gates[u]) * bounded_tanh(gates[2 * kHidden + u]);
      h[u] = sigmoid(gates[3 * kHidden + u]) * bounded_tanh(c[u]);
      F32Buffer(out_).v[row * kHidden + u] = h[u];
    }
    barrier();
  }
  for (uint u = thread; u < kHidden; u += n_threads) {
    F32Buffer(state).v[first + u] = h[u];
    F32Buffer(state).v[first + kHidden + u] = c[u];
  }
}

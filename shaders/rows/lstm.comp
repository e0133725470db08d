// lstm: one workgroup per sequence; each step computes all gates, then the state.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHidden = 16;
const uint kGates = 4 * kHidden;
// Weights of a thread's first gate that stay in registers. The others of 128 units, 64 KB, then
// fit in the L1 cache of a GPU; all of them do not, and each step would read them from L2.
const uint kKept = kHidden < 96 ? kHidden : 96;

layout(push_constant) uniform Push {
  Address out_, state, in_, weight;
  LstmParams p;
};

shared vec4 h[kHidden / 4];
shared float c[kHidden];
shared float gates[kGates];

float sigmoid(float x) { return 1.0 / (1.0 + exp(-x)); }
// The built-in one may be made of exponentials that overflow.
float bounded_tanh(float x) { return 1.0 - 2.0 / (1.0 + exp(2.0 * x)); }

uint first_weight(uint gate) {
  return gate / kLstmPanel * kHidden * kLstmPanel + gate % kLstmPanel;
}

void main() {
  uint sequence = gl_WorkGroupID.x, thread = gl_LocalInvocationID.x;
  uint n_threads = gl_WorkGroupSize.x, first = sequence * 2 * kHidden;
  for (uint u = thread; u < kHidden; u += n_threads) {
    h[u / 4][u % 4] = F32Buffer(state).v[first + u];
    c[u] = F32Buffer(state).v[first + kHidden + u];
  }
  float kept[kKept];
  [[unroll]] for (uint k = 0; k < kKept; ++k) {
    kept[k] = thread < kGates ? F32Buffer(weight).v[first_weight(thread) + k * kLstmPanel] : 0.0;
  }
  // The first gate's input of the next step is loaded a step early.
  uint first_in = sequence * p.n_steps * kGates + thread;
  float next_in = thread < kGates ? F32Buffer(in_).v[first_in] : 0.0;
  barrier();
  for (uint t = 0; t < p.n_steps; ++t) {
    uint row = sequence * p.n_steps + t;
    for (uint j = thread; j < kGates; j += n_threads) {
      float sum = j == thread ? next_in : F32Buffer(in_).v[row * kGates + j];
      uint w = first_weight(j), k = 0;
      if (j == thread) {
        [[unroll]] for (uint i = 0; i < kKept; ++i) sum = fma(h[i / 4][i % 4], kept[i], sum);
        k = kKept;
      }
      for (; k < kHidden; k += 4) {
        vec4 next = h[k / 4];
        [[unroll]] for (uint i = 0; i < 4; ++i) {
          sum = fma(next[i], F32Buffer(weight).v[w + (k + i) * kLstmPanel], sum);
        }
      }
      gates[j] = sum;
    }
    if (thread < kGates && t + 1 < p.n_steps) {
      next_in = F32Buffer(in_).v[first_in + (t + 1) * kGates];
    }
    barrier();
    for (uint u = thread; u < kHidden; u += n_threads) {
      c[u] = sigmoid(gates[kHidden + u]) * c[u] +
             sigmoid(gates[u]) * bounded_tanh(gates[2 * kHidden + u]);
      float unit = sigmoid(gates[3 * kHidden + u]) * bounded_tanh(c[u]);
      h[u / 4][u % 4] = unit;
      F32Buffer(out_).v[row * kHidden + u] = unit;
    }
    barrier();
  }
  for (uint u = thread; u < kHidden; u += n_threads) {
    F32Buffer(state).v[first + u] = h[u / 4][u % 4];
    F32Buffer(state).v[first + kHidden + u] = c[u];
  }
}

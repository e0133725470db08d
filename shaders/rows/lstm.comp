// lstm: one workgroup per sequence, four lanes per unit of the state.
//
// A lane multiplies a quarter of h with the weights of its unit's four gates, exchanges sums with
// the other three lanes, and computes one gate. The first lane has the unit's state. h has two
// buffers, so that a step needs one barrier.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHidden = 16;
const uint kGates = 4 * kHidden;
const uint kQuarter = kHidden / 16;  // of h, in vectors of 4
// Vectors of columns whose weights of a lane's first unit are loaded once, 16 weights each. Of the
// 256 KB of 128 units, a GPU's compiler moves a few that do not fit in the registers to local
// memory, whose reads take less time than those of the panels.
const uint kKept = kQuarter < 8 ? kQuarter : 8;

layout(push_constant) uniform Push {
  Address out_, state, in_, weight;
  LstmParams p;
};

shared vec4 h[2][kHidden / 4];
shared float c[kHidden];

float sigmoid(float x) { return 1.0 / (1.0 + exp(-x)); }
// The built-in one may be made of exponentials that overflow.
float bounded_tanh(float x) { return 1.0 - 2.0 / (1.0 + exp(2.0 * x)); }

// Weights of columns 4 v to 4 v + 3, a vector for each gate of the unit.
mat4 load_weights(uint unit, uint v) {
  mat4 weights;
  [[unroll]] for (uint g = 0; g < 4; ++g) {
    uint gate = g * kHidden + unit;
    uint first = (gate / kLstmPanel * kHidden + 4 * v) * kLstmPanel + gate % kLstmPanel;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      weights[g][i] = F32Buffer(weight).v[first + i * kLstmPanel];
    }
  }
  return weights;
}

// Adds the products of a vector of h to the sums of the four gates.
vec4 add_products(vec4 sums, mat4 weights, vec4 x) {
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    [[unroll]] for (uint g = 0; g < 4; ++g) sums[g] = fma(x[i], weights[g][i], sums[g]);
  }
  return sums;
}

// The sum of gate `quarter` over the four lanes of a unit.
float exchange(vec4 sums, uint quarter) {
  bool upper = quarter >= 2, odd = quarter % 2 == 1;
  vec2 own = upper ? sums.zw : sums.xy, other = upper ? sums.xy : sums.zw;
  own += vec2(subgroupShuffleXor(other.x, 2), subgroupShuffleXor(other.y, 2));
  return (odd ? own.y : own.x) + subgroupShuffleXor(odd ? own.x : own.y, 1);
}

void main() {
  uint sequence = gl_WorkGroupID.x, first = sequence * 2 * kHidden;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint quarter = thread % 4, first_unit = thread / 4, n_units = gl_WorkGroupSize.x / 4;
  uint lane = gl_SubgroupInvocationID - quarter;  // the first of the unit
  for (uint u = thread; u < kHidden; u += gl_WorkGroupSize.x) {
    h[0][u / 4][u % 4] = F32Buffer(state).v[first + u];
    c[u] = F32Buffer(state).v[first + kHidden + u];
  }
  mat4 kept[kKept];
  [[unroll]] for (uint v = 0; v < kKept; ++v) {
    kept[v] = load_weights(min(first_unit, kHidden - 1), 4 * v + quarter);
  }
  uint in_gate = quarter * kHidden;
  // The first unit's input of the next step is loaded a step early.
  uint first_in = sequence * p.n_steps * kGates + in_gate + min(first_unit, kHidden - 1);
  float next_in = F32Buffer(in_).v[first_in];
  barrier();
  for (uint t = 0; t < p.n_steps; ++t) {
    uint row = sequence * p.n_steps + t, now = t % 2;
    for (uint unit = first_unit; unit < kHidden; unit += n_units) {
      bool is_first = unit == first_unit;
      float x = is_first ? next_in : F32Buffer(in_).v[row * kGates + in_gate + unit];
      vec4 sums = vec4(0.0);
      uint v = 0;
      if (is_first) {
        if (t + 1 < p.n_steps) next_in = F32Buffer(in_).v[first_in + (t + 1) * kGates];
        [[unroll]] for (uint i = 0; i < kKept; ++i) {
          sums = add_products(sums, kept[i], h[now][4 * i + quarter]);
        }
        v = kKept;
      }
      for (; v < kQuarter; ++v) {
        sums = add_products(sums, load_weights(unit, 4 * v + quarter), h[now][4 * v + quarter]);
      }
      x += exchange(sums, quarter);
      float gate = quarter == 2 ? bounded_tanh(x) : sigmoid(x);
      float forget = subgroupShuffle(gate, lane + 1), candidate = subgroupShuffle(gate, lane + 2);
      float output_ = subgroupShuffle(gate, lane + 3);
      if (quarter == 0) {
        float cell = forget * c[unit] + gate * candidate;
        float hidden = output_ * bounded_tanh(cell);
        c[unit] = cell;
        h[1 - now][unit / 4][unit % 4] = hidden;
        F32Buffer(out_).v[row * kHidden + unit] = hidden;
      }
    }
    barrier();
  }
  for (uint u = thread; u < kHidden; u += gl_WorkGroupSize.x) {
    F32Buffer(state).v[first + u] = h[p.n_steps % 2][u / 4][u % 4];
    F32Buffer(state).v[first + kHidden + u] = c[u];
  }
}

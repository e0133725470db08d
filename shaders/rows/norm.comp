// norm: layer norm or RMS norm, one workgroup per row. The row is read once and kept in registers:
// kPerThread groups of four values per thread.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "stage_order.glsl"
#include "int8_rows.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kPerThread = 1;
layout(constant_id = 2) const uint kKind = 0;
layout(constant_id = 3) const uint kOutDtype = 0;
layout(constant_id = 4) const uint kPresent = 0;  // 1: bias, 2: index, 4: residual
layout(constant_id = 5) const uint kAligned = 0;  // every row is aligned to 4 elements
layout(constant_id = 6) const uint kInDtype = 0;

layout(push_constant) uniform Push {
  Address out_, in_, weight, bias, index, residual;
  NormParams p;
  StageCounters stages;
};

// Columns `column` to `column + 3` of the row at `start`. After the end of the row: its last four
// columns if rows are aligned, otherwise zeros.
vec4 load4(Address address, uint start, uint column, uint dtype) {
  if (kAligned != 0) return load_vec4(address, start + min(column, p.d - 4), dtype);
  vec4 x = vec4(0.0);
  for (uint j = 0; j < 4; ++j) {
    if (column + j < p.d) x[j] = load_float(address, start + column + j, dtype);
  }
  return x;
}

void main() {
  uint r = gl_WorkGroupID.x;
  uint source = ((kPresent & 2u) != 0 ? U32Buffer(index).v[r] : r) * p.row_stride;
  uint first = gl_LocalInvocationID.x * 4, stride = gl_WorkGroupSize.x * 4;
  // All loads are in flight before the first sum.
  vec4 x[kPerThread], weights[kPerThread], biases[kPerThread], residuals[kPerThread];
  [[unroll]] for (uint i = 0; i < kPerThread; ++i) {
    uint column = first + i * stride;
    weights[i] = load4(weight, 0, column, kDTypeF32);
    if ((kPresent & 1u) != 0) biases[i] = load4(bias, 0, column, kDTypeF32);
  }
  wait_for_stage(stages);
  [[unroll]] for (uint i = 0; i < kPerThread; ++i) {
    uint column = first + i * stride;
    x[i] = load4(in_, source, column, kInDtype);
    if ((kPresent & 4u) != 0) residuals[i] = load4(residual, r * p.d, column, kDTypeF32);
  }
  float sum = 0.0;
  [[unroll]] for (uint i = 0; i < kPerThread; ++i) {
    if (first + i * stride < p.d) sum += x[i].x + x[i].y + x[i].z + x[i].w;
  }
  float mean = kKind == kNormLayer ? workgroup_sum(sum) / float(p.d) : 0.0;
  float squares = 0.0;
  [[unroll]] for (uint i = 0; i < kPerThread; ++i) {
    uint column = first + i * stride;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
      x[i][j] = column + j < p.d ? x[i][j] - mean : 0.0;
      squares += x[i][j] * x[i][j];
    }
  }
  float scale = inversesqrt(workgroup_sum(squares) / float(p.d) + p.epsilon);
  [[unroll]] for (uint i = 0; i < kPerThread; ++i) {
    uint column = first + i * stride;
    if (column >= p.d) continue;
    vec4 value = x[i] * scale * weights[i];
    if ((kPresent & 1u) != 0) value += biases[i];
    if ((kPresent & 4u) != 0) value += residuals[i];
    uint at = r * p.row_stride + column;
    if (kOutDtype == kDTypeI8) {
      store_int8(out_, p.n_rows * p.d, at, value);
    } else if (kAligned != 0) {
      store_vec4(out_, at, kOutDtype, value);
    } else {
      for (uint j = 0; j < 4; ++j) {
        if (column + j < p.d) store_float(out_, at + j, kOutDtype, value[j]);
      }
    }
  }
  count_workgroups(stages, 1, gl_WorkGroupID.x == 0);
}

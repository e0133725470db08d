// matmul for 1 to 8 rows: every weight is read once, 16 bytes a load, and meets all rows.
//
// A workgroup is kOutGroups * kSplit subgroups. Each subgroup sums kOuts outputs over its part of
// the columns; the kSplit parts of an output are added in shared memory. Grid: blocks of
// kOutGroups * kOuts outputs.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "buffers.glsl"
#include "matmul_epilogue.glsl"
#include "weights.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kRows = 1;
layout(constant_id = 2) const uint kOuts = 1;
layout(constant_id = 3) const uint kOutGroups = 1;
layout(constant_id = 4) const uint kSplit = 1;
layout(constant_id = 5) const uint kInDtype = 0;
layout(constant_id = 6) const uint kOutDtype = 0;
layout(constant_id = 7) const uint kWeightFormat = 0;
layout(constant_id = 8) const uint kFlags = 0;
layout(constant_id = 9) const uint kPresent = 0;
layout(constant_id = 10) const uint kAligned = 1;  // rows of `in` can be read four at a time
#include "quantized.glsl"

layout(push_constant) uniform Push {
  Address out_, in_, weight, bias, residual, scale;
  uint n_out, n_in, in_row_stride, out_row_stride;
};

shared float parts[kOutGroups * kSplit * kOuts * kRows];

vec4 load_in4(uint r, uint k) {
  uint i = r * in_row_stride + k;
  if (kAligned != 0) return k < n_in ? load_vec4(in_, i, kInDtype) : vec4(0.0);
  vec4 x = vec4(0.0);
  for (uint j = 0; j < 4; ++j) {
    if (k + j < n_in) x[j] = load_float(in_, i + j, kInDtype);
  }
  return x;
}

void main() {
  uint out_group = gl_SubgroupID / kSplit;
  uint part = gl_SubgroupID % kSplit;
  uint first = (gl_WorkGroupID.x * kOutGroups + out_group) * kOuts;
  uint columns = padded_columns(n_in);

  float sums[kOuts * kRows];
  [[unroll]] for (uint i = 0; i < kOuts * kRows; ++i) sums[i] = 0.0;
  for (uint k = (part * gl_SubgroupSize + gl_SubgroupInvocationID) * 8; k < columns;
       k += kSplit * gl_SubgroupSize * 8) {
    vec4 w0[kOuts], w1[kOuts];
    [[unroll]] for (uint o = 0; o < kOuts; ++o) {
      uint row = min(first + o, n_out - 1), i = row * columns + k;
      if (kInBlocks) {
        uvec2 codes = load_codes(weight, row, n_in, k);
        vec2 group = load_group_scale(scale, row, n_in, k);
        w0[o] = code_values(codes.x) * group.x + group.y;
        w1[o] = code_values(codes.y) * group.x + group.y;
      } else if (kWeightFormat == kDTypeF16) {
        uvec4 bits = UVec4Buffer(weight).v[i / 8];
        w0[o] = unpack_half4(bits.xy);
        w1[o] = unpack_half4(bits.zw);
      } else if (kWeightFormat == kDTypeI8) {
        uvec2 bits = UVec2Buffer(weight).v[i / 8];
        w0[o] = unpack_bytes(bits.x);
        w1[o] = unpack_bytes(bits.y);
      } else {
        w0[o] = Vec4Buffer(weight).v[i / 4];
        w1[o] = Vec4Buffer(weight).v[i / 4 + 1];
      }
    }
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      vec4 x0 = load_in4(r, k);
      vec4 x1 = load_in4(r, k + 4);
      [[unroll]] for (uint o = 0; o < kOuts; ++o) {
        sums[o * kRows + r] += dot(x0, w0[o]) + dot(x1, w1[o]);
      }
    }
  }
  [[unroll]] for (uint i = 0; i < kOuts * kRows; ++i) {
    float sum = subgroupAdd(sums[i]);
    if (gl_SubgroupInvocationID == 0) parts[gl_SubgroupID * kOuts * kRows + i] = sum;
  }
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < kOutGroups * kOuts * kRows; i += gl_WorkGroupSize.x) {
    uint group = i / (kOuts * kRows);
    uint slot = i % (kOuts * kRows);
    uint o = (gl_WorkGroupID.x * kOutGroups + group) * kOuts + slot / kRows;
    uint r = slot % kRows;
    if (o < n_out) {
      float value = 0.0;
      for (uint s = 0; s < kSplit; ++s) value += parts[(group * kSplit + s) * kOuts * kRows + slot];
      if ((kPresent & kHasScale) != 0) value *= F32Buffer(scale).v[o];
      if ((kPresent & kHasBias) != 0) value += F32Buffer(bias).v[o];
      if ((kFlags & kMatmulGelu) != 0) value = gelu(value);
      uint at = r * out_row_stride + o;
      if ((kPresent & kHasResidual) != 0) {
        uint from = (kFlags & kMatmulResidualByRow) != 0 ? r * n_out + o : at;
        value += F32Buffer(residual).v[from];
      }
      store_float(out_, at, kOutDtype, value);
    }
  }
}

// matmul for 1 to 8 rows: every weight is read once, in loads of 16 bytes, and multiplied with all
// rows.
//
// A workgroup has kOutGroups * kSplit subgroups. Each subgroup sums kOuts outputs over its part of
// the columns. The kSplit parts of an output are added in shared memory. With one row and quantized
// weights, a lane takes 32 columns at a time. With gates, half of the sums are those of gates. With an
// RMS norm, every subgroup also sums the squares of its part of a row, by which the sums are divided at
// the end. With a layer norm, the workgroup first computes the mean and the deviation of each row.
// Grid: blocks of kOutGroups * kPairs outputs.
// Also expert_matmul, one slot per workgroup. Grid: (blocks of outputs, slots).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "buffers.glsl"
#include "matmul/matmul_epilogue.glsl"
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
layout(constant_id = 10) const uint kAligned = 1;  // rows of `in` are aligned to 4 elements
layout(constant_id = 11) const uint kActivation = 0;
layout(constant_id = 12) const uint kExperts = 0;  // 1: expert_matmul, 2: with a row table
layout(constant_id = 13) const float kEpsilon = 0.0;  // of the norm
#include "quantized.glsl"

layout(push_constant) uniform Push {
  Address out_, in_, weight, bias, residual, scale;
  uint n_out, n_in, in_row_stride, out_row_stride;
  // of expert_matmul
  Address ids, rows;
  uint n_used, in_slots;  // slots of a row of the pass, and of a row of `in`
  Address norm_weight;
};

// Of expert_matmul: the first row of the expert's weights, and of `in` and `out`.
uint first_weight_row = 0, in_row = 0, out_row = 0;

// Eight columns are in one group: with few rows, scale their sum instead of each weight.
const bool kScalesSums = kInBlocks && kRows <= 4;

// One row by quantized weights: blocks of 32 columns, for wide loads. Each lane's part of the row
// is in shared memory with four floats of padding, so that lanes read from different banks.
const bool kByBlocks = kInBlocks && kRows == 1;
const uint kLanes = gl_WorkGroupSize.x / (kOutGroups * kSplit);
const uint kLanePitch = 9;  // of vec4
shared vec4 staged[kByBlocks ? gl_WorkGroupSize.x * kLanePitch : 1];

const bool kGated = (kFlags & kMatmulGated) != 0;
const bool kRmsNorm = (kPresent & kHasRmsNorm) != 0;
const bool kLayerNorm = (kPresent & kHasLayerNorm) != 0;
const uint kPairs = kGated ? kOuts / 2 : kOuts;  // outputs of a subgroup
const uint kSums = kOuts * kRows;
const uint kParts = kRmsNorm ? kSums + kRows : kSums;  // of a subgroup: sums, then squares

shared float parts[kOutGroups * kSplit * kParts];
shared float moments[kLayerNorm ? 2 * kOutGroups * kSplit * kRows : 1];

vec4 load_in4(uint r, uint k) {
  uint i = (in_row + r) * in_row_stride + k;
  if (kAligned != 0) return k < n_in ? load_vec4(in_, i, kInDtype) : vec4(0.0);
  vec4 x = vec4(0.0);
  for (uint j = 0; j < 4; ++j) {
    if (k + j < n_in) x[j] = load_float(in_, i + j, kInDtype);
  }
  return x;
}

// Weights of the norm of columns k to k + 3; with start = n_in its biases.
vec4 load_norm4(uint start, uint k) {
  if (kAligned != 0) return k < n_in ? Vec4Buffer(norm_weight).v[(start + k) / 4] : vec4(0.0);
  vec4 w = vec4(0.0);
  for (uint j = 0; j < 4; ++j) {
    if (k + j < n_in) w[j] = F32Buffer(norm_weight).v[start + k + j];
  }
  return w;
}

// The row of weights of sum `o` of a subgroup whose first output is `first`.
uint weight_row(uint first, uint o) {
  if (kGated && o >= kPairs) return n_out + min(first + o - kPairs, n_out - 1);
  return first_weight_row + min(first + o, n_out - 1);
}

// Part i of an output group, added over the columns.
float add_parts(uint group, uint i) {
  float sum = 0.0;
  for (uint s = 0; s < kSplit; ++s) sum += parts[(group * kSplit + s) * kParts + i];
  return sum;
}

float sums[kSums], squares[kRows];
float means[kRows], factors[kRows];  // of a layer norm

// Replaces each thread's sum of a row by the mean of the row over all columns. `start` is the first
// element of `moments` that is used.
void average(inout float means[kRows], uint start) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    float sum = subgroupAdd(means[r]);
    if (gl_SubgroupInvocationID == 0) moments[start + gl_SubgroupID * kRows + r] = sum;
  }
  barrier();
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    float sum = 0.0;
    for (uint s = 0; s < kOutGroups * kSplit; ++s) sum += moments[start + s * kRows + r];
    means[r] = sum / float(n_in);
  }
}

// Computes `means`, and the reciprocal standard deviations in `factors`.
void measure_rows() {
  [[unroll]] for (uint r = 0; r < kRows; ++r) means[r] = factors[r] = 0.0;
  for (uint k = gl_LocalInvocationID.x * 4; k < n_in; k += gl_WorkGroupSize.x * 4) {
    [[unroll]] for (uint r = 0; r < kRows; ++r) means[r] += dot(load_in4(r, k), vec4(1.0));
  }
  average(means, 0);
  for (uint k = gl_LocalInvocationID.x * 4; k < n_in; k += gl_WorkGroupSize.x * 4) {
    bvec4 exists = lessThan(uvec4(k) + uvec4(0, 1, 2, 3), uvec4(n_in));
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      vec4 distance = mix(vec4(0.0), load_in4(r, k) - means[r], exists);
      factors[r] += dot(distance, distance);
    }
  }
  average(factors, kOutGroups * kSplit * kRows);
  [[unroll]] for (uint r = 0; r < kRows; ++r) factors[r] = inversesqrt(factors[r] + kEpsilon);
}

void sum_blocks(uint first, uint part) {
  uint lane = gl_SubgroupInvocationID, own = gl_SubgroupID * kLanes * kLanePitch;
  for (uint start = part * kLanes * 32; start < n_in; start += kSplit * kLanes * 32) {
    // The row is zero after the last column.
    uint k = min(start + lane * 32, n_in - 32);
    CodeBlock blocks[kOuts];
    [[unroll]] for (uint o = 0; o < kOuts; ++o) {
      blocks[o] = load_block(weight, scale, weight_row(first, o), n_in, k);
    }
    [[unroll]] for (uint j = 0; j < 8; ++j) {
      uint i = lane + j * kLanes;
      staged[own + i / 8 * kLanePitch + i % 8] = load_in4(0, start + i * 4);
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    [[unroll]] for (uint h = 0; h < 2; ++h) {
      vec4 x[4];
      [[unroll]] for (uint j = 0; j < 4; ++j) x[j] = staged[own + lane * kLanePitch + h * 4 + j];
      vec4 all = x[0] + x[1] + x[2] + x[3];
      float x_sum = all.x + all.y + all.z + all.w;
      [[unroll]] for (uint o = 0; o < kOuts; ++o) {
        uvec2 low = block_codes(blocks[o], 2 * h), high = block_codes(blocks[o], 2 * h + 1);
        float sum = dot(x[0], code_values(low.x)) + dot(x[1], code_values(low.y)) +
                    dot(x[2], code_values(high.x)) + dot(x[3], code_values(high.y));
        vec2 group = group_scale(blocks[o].groups[h]);
        sum *= group.x;
        if (kScaleKinds == 2u) sum += x_sum * group.y;
        sums[o] += sum;
      }
    }
    subgroupBarrier();  // the row has been read
  }
}

void main() {
  uint out_group = gl_SubgroupID / kSplit;
  uint part = gl_SubgroupID % kSplit;
  uint first = (gl_WorkGroupID.x * kOutGroups + out_group) * kPairs;
  uint columns = padded_columns(n_in);
  if (kExperts != 0) {
    uint slot = gl_WorkGroupID.y;
    if (kExperts == 2 && RowBuffer(rows).v[slot / n_used].sequence < 0) return;
    first_weight_row = U32Buffer(ids).v[slot] * n_out;
    in_row = slot / in_slots;
    out_row = slot;
  }

  [[unroll]] for (uint i = 0; i < kSums; ++i) sums[i] = 0.0;
  [[unroll]] for (uint r = 0; r < kRows; ++r) squares[r] = 0.0;
  if (kLayerNorm) measure_rows();
  if (kByBlocks) sum_blocks(first, part);
  for (uint k = (part * gl_SubgroupSize + gl_SubgroupInvocationID) * 8; !kByBlocks && k < columns;
       k += kSplit * gl_SubgroupSize * 8) {
    vec4 w0[kOuts], w1[kOuts];
    vec2 groups[kOuts];  // of quantized weights
    [[unroll]] for (uint o = 0; o < kOuts; ++o) {
      uint row = weight_row(first, o), i = row * columns + k;
      if (kInBlocks) {
        uvec2 codes = load_codes(weight, row, n_in, k);
        groups[o] = load_group_scale(scale, row, n_in, k);
        w0[o] = code_values(codes.x);
        w1[o] = code_values(codes.y);
        if (!kScalesSums) {
          w0[o] = w0[o] * groups[o].x + groups[o].y;
          w1[o] = w1[o] * groups[o].x + groups[o].y;
        }
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
    vec4 norm0, norm1, shift0, shift1;
    if (kRmsNorm || kLayerNorm) {
      norm0 = load_norm4(0, k);
      norm1 = load_norm4(0, k + 4);
    }
    if (kLayerNorm) {
      shift0 = load_norm4(n_in, k);
      shift1 = load_norm4(n_in, k + 4);
    }
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      vec4 x0 = load_in4(r, k);
      vec4 x1 = load_in4(r, k + 4);
      if (kRmsNorm) {
        squares[r] += dot(x0, x0) + dot(x1, x1);
        x0 *= norm0;
        x1 *= norm1;
      }
      if (kLayerNorm) {
        x0 = (x0 - means[r]) * factors[r] * norm0 + shift0;
        x1 = (x1 - means[r]) * factors[r] * norm1 + shift1;
      }
      vec4 both = x0 + x1;
      float x_sum = both.x + both.y + both.z + both.w;
      [[unroll]] for (uint o = 0; o < kOuts; ++o) {
        float sum = dot(x0, w0[o]) + dot(x1, w1[o]);
        if (kScalesSums) {
          sum *= groups[o].x;
          if (kScaleKinds == 2u) sum += x_sum * groups[o].y;
        }
        sums[o * kRows + r] += sum;
      }
    }
  }
  [[unroll]] for (uint i = 0; i < kParts; ++i) {
    float sum = subgroupAdd(i < kSums ? sums[i] : squares[i - kSums]);
    if (gl_SubgroupInvocationID == 0) parts[gl_SubgroupID * kParts + i] = sum;
  }
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < kOutGroups * kPairs * kRows; i += gl_WorkGroupSize.x) {
    uint group = i / (kPairs * kRows);
    uint slot = i % (kPairs * kRows);
    uint o = (gl_WorkGroupID.x * kOutGroups + group) * kPairs + slot / kRows;
    uint r = slot % kRows;
    if (o < n_out) {
      float value = add_parts(group, slot);
      float other = kGated ? add_parts(group, slot + kPairs * kRows) : 0.0;
      if (kRmsNorm) {
        float factor = inversesqrt(add_parts(group, kSums + r) / float(n_in) + kEpsilon);
        value *= factor;
        other *= factor;
      }
      if ((kPresent & kHasScale) != 0) value *= F32Buffer(scale).v[first_weight_row + o];
      if ((kPresent & kHasBias) != 0) value += F32Buffer(bias).v[first_weight_row + o];
      value = activate(kActivation, value);
      if (kGated) {
        if ((kPresent & kHasScale) != 0) other *= F32Buffer(scale).v[n_out + o];
        if ((kPresent & kHasBias) != 0) other += F32Buffer(bias).v[n_out + o];
        value *= other;
      }
      uint at = (out_row + r) * out_row_stride + o;
      if ((kPresent & kHasResidual) != 0) {
        uint from = (kFlags & kMatmulResidualByRow) != 0 ? r * n_out + o : at;
        value += F32Buffer(residual).v[from];
      }
      store_float(out_, at, kOutDtype, value);
    }
  }
}

// matmul for 1 to 8 rows: every weight is read once, in loads of 16 bytes, and multiplied with all
// rows.
//
// A workgroup has kOutGroups * kSplit subgroups. Each subgroup sums kOuts outputs over its part of
// the columns. The kSplit parts of an output are added in shared memory. With one row and quantized
// weights, a lane takes 32 columns at a time. With gates, half of the sums are those of gates. With an
// RMS norm, every subgroup also sums the squares of its part of a row, by which the sums are divided at
// the end. With a layer norm, the workgroup first norms the rows, while its first weights are loaded.
// Grid: blocks of kOutGroups * kPairs outputs.
// Also expert_matmul, one slot per workgroup. Grid: (blocks of outputs, slots).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "stage_order.glsl"
#include "matmul/matmul_epilogue.glsl"

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
layout(constant_id = 14) const uint kIn = 32;  // columns
layout(constant_id = 15) const uint kMostAhead = 1;  // steps whose weights are loaded before a norm
#include "quantized.glsl"

layout(push_constant) uniform Push {
  Address out_, in_, weight, bias, residual, scale;
  uint n_out, in_row_stride, out_row_stride;
  uint n_used;  // of expert_matmul: slots of a row of the pass
  Address norm_weight;
  Address ids, rows;  // of expert_matmul, and slots of a row of `in`
  uint in_slots;
  StageCounters stages;
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

const uint kColumns = (kIn + 31u) & ~31u;  // of a row of weights
const uint kStep = kSplit * kLanes * 8;    // columns that the subgroups of an output take at once
const uint kSteps = (kColumns + kStep - 1) / kStep;
// Steps whose weights are loaded at once. With a layer norm, those of the first steps are loaded
// before it.
const uint kAhead = kLayerNorm ? (kSteps < kMostAhead ? kSteps : kMostAhead) : 1;

// Rows after a layer norm. Of each row, every subgroup has the sum of some columns and the sum of
// their squared distances from the mean.
const uint kQuads = kColumns / 4, kRowsQuads = kRows * kQuads;
const uint kThreadQuads = (kQuads + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint kMoments = kOutGroups * kSplit * kRows;
shared vec4 normed[kLayerNorm ? kRowsQuads : 1];
shared vec2 moments[kLayerNorm ? kMoments : 1];

vec4 load_in4(uint r, uint k) {
  uint i = (in_row + r) * in_row_stride + k;
  if (kAligned != 0) return k < kIn ? load_vec4(in_, i, kInDtype) : vec4(0.0);
  vec4 x = vec4(0.0);
  for (uint j = 0; j < 4; ++j) {
    if (k + j < kIn) x[j] = load_float(in_, i + j, kInDtype);
  }
  return x;
}

// Weights of the norm of columns k to k + 3; with start = kIn its biases.
vec4 load_norm4(uint start, uint k) {
  if (kAligned != 0) return k < kIn ? Vec4Buffer(norm_weight).v[(start + k) / 4] : vec4(0.0);
  vec4 w = vec4(0.0);
  for (uint j = 0; j < 4; ++j) {
    if (k + j < kIn) w[j] = F32Buffer(norm_weight).v[start + k + j];
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

// Columns of a row that subgroup s has in norm_rows.
float n_columns_of(uint s) {
  uint n = 0;
  [[unroll]] for (uint i = 0; i < kThreadQuads; ++i) {
    n += uint(clamp(int(kIn) - int((i * gl_WorkGroupSize.x + s * kLanes) * 4), 0, int(kLanes * 4)));
  }
  return float(n);
}

// Stores the rows after the layer norm in `normed`. The variance of a row follows from those of the
// subgroups ("Updating formulae and a pairwise algorithm for computing sample variances", Chan, Golub
// and LeVeque, 1979).
void norm_rows() {
  vec4 x[kRows * kThreadQuads], weights[kThreadQuads], biases[kThreadQuads];
  [[unroll]] for (uint i = 0; i < kThreadQuads; ++i) {
    uint k = (i * gl_WorkGroupSize.x + gl_LocalInvocationID.x) * 4;
    [[unroll]] for (uint r = 0; r < kRows; ++r) x[r * kThreadQuads + i] = load_in4(r, k);
    weights[i] = load_norm4(0, k);
    biases[i] = load_norm4(kIn, k);
  }
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    float sum = 0.0, squares = 0.0;
    [[unroll]] for (uint i = 0; i < kThreadQuads; ++i) {
      sum += dot(x[r * kThreadQuads + i], vec4(1.0));
    }
    sum = subgroupAdd(sum);
    float mean = sum / max(n_columns_of(gl_SubgroupID), 1.0);
    [[unroll]] for (uint i = 0; i < kThreadQuads; ++i) {
      uvec4 k = (i * gl_WorkGroupSize.x + gl_LocalInvocationID.x) * 4 + uvec4(0, 1, 2, 3);
      vec4 distance = mix(vec4(0.0), x[r * kThreadQuads + i] - mean, lessThan(k, uvec4(kIn)));
      squares += dot(distance, distance);
    }
    squares = subgroupAdd(squares);
    if (gl_SubgroupInvocationID == 0) moments[gl_SubgroupID * kRows + r] = vec2(sum, squares);
  }
  barrier();
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    float mean = 0.0, squares = 0.0;
    [[unroll]] for (uint s = 0; s < kOutGroups * kSplit; ++s) mean += moments[s * kRows + r].x;
    mean /= float(kIn);
    [[unroll]] for (uint s = 0; s < kOutGroups * kSplit; ++s) {
      vec2 of_part = moments[s * kRows + r];
      float n = n_columns_of(s), distance = of_part.x / max(n, 1.0) - mean;
      squares += of_part.y + n * distance * distance;
    }
    float factor = inversesqrt(squares / float(kIn) + kEpsilon);
    [[unroll]] for (uint i = 0; i < kThreadQuads; ++i) {
      uint quad = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
      vec4 y = (x[r * kThreadQuads + i] - mean) * factor * weights[i] + biases[i];
      if (quad < kQuads) normed[r * kQuads + quad] = y;
    }
  }
  barrier();
}

// Constant operands of the epilogue for one result. `other` ones are of what a gate multiplies.
struct Epilogue {
  float scale, bias, other_scale, other_bias;
};

// Those of result i of the workgroup.
Epilogue load_epilogue(uint i) {
  Epilogue e = Epilogue(1.0, 0.0, 1.0, 0.0);
  uint group = i / (kPairs * kRows), slot = i % (kPairs * kRows);
  uint o = min((gl_WorkGroupID.x * kOutGroups + group) * kPairs + slot / kRows, n_out - 1);
  if ((kPresent & kHasScale) != 0) e.scale = F32Buffer(scale).v[first_weight_row + o];
  if ((kPresent & kHasBias) != 0) e.bias = F32Buffer(bias).v[first_weight_row + o];
  if (kGated && (kPresent & kHasScale) != 0) e.other_scale = F32Buffer(scale).v[n_out + o];
  if (kGated && (kPresent & kHasBias) != 0) e.other_bias = F32Buffer(bias).v[n_out + o];
  return e;
}

// The residual of result i of the workgroup.
float load_residual(uint i) {
  float value = 0.0;
  if ((kPresent & kHasResidual) != 0) {
    uint group = i / (kPairs * kRows), slot = i % (kPairs * kRows), r = slot % kRows;
    uint o = min((gl_WorkGroupID.x * kOutGroups + group) * kPairs + slot / kRows, n_out - 1);
    bool by_row = (kFlags & kMatmulResidualByRow) != 0;
    value = F32Buffer(residual).v[by_row ? r * n_out + o : (out_row + r) * out_row_stride + o];
  }
  return value;
}

// Stored weights of kAhead steps, and bits of the scale and minimum of their group.
uvec4 low[kAhead * kOuts], high[kAhead * kOuts];
uvec2 group_bits[kAhead * kOuts];

// Loads the weights of kAhead steps from column k on; beyond the last column, those of the last ones.
void load_weights(uint first, uint k) {
  [[unroll]] for (uint t = 0; t < kAhead; ++t) {
    uint column = min(k + t * kStep, kColumns - 8);
    [[unroll]] for (uint o = 0; o < kOuts; ++o) {
      uint row = weight_row(first, o), i = row * kColumns + column, at = t * kOuts + o;
      if (kInBlocks) {
        low[at].xy = load_codes(weight, row, kIn, column);
        group_bits[at] = load_group_bits(scale, row, kIn, column);
      } else if (kWeightFormat == kDTypeF16) {
        low[at] = UVec4Buffer(weight).v[i / 8];
      } else if (kWeightFormat == kDTypeI8) {
        low[at].xy = UVec2Buffer(weight).v[i / 8];
      } else {
        low[at] = UVec4Buffer(weight).v[i / 4];
        high[at] = UVec4Buffer(weight).v[i / 4 + 1];
      }
    }
  }
}

// Adds the products of stored weights t with the columns from k on.
void add_products(uint t, uint k) {
  vec4 w0[kOuts], w1[kOuts];
  vec2 groups[kOuts];  // of quantized weights
  [[unroll]] for (uint o = 0; o < kOuts; ++o) {
    uvec4 bits = low[t * kOuts + o];
    if (kInBlocks) {
      groups[o] = group_scale(group_bits[t * kOuts + o]);
      w0[o] = code_values(bits.x);
      w1[o] = code_values(bits.y);
      if (!kScalesSums) {
        w0[o] = w0[o] * groups[o].x + groups[o].y;
        w1[o] = w1[o] * groups[o].x + groups[o].y;
      }
    } else if (kWeightFormat == kDTypeF16) {
      w0[o] = unpack_half4(bits.xy);
      w1[o] = unpack_half4(bits.zw);
    } else if (kWeightFormat == kDTypeI8) {
      w0[o] = unpack_bytes(bits.x);
      w1[o] = unpack_bytes(bits.y);
    } else {
      w0[o] = uintBitsToFloat(bits);
      w1[o] = uintBitsToFloat(high[t * kOuts + o]);
    }
  }
  vec4 norm0, norm1;
  if (kRmsNorm) {
    norm0 = load_norm4(0, k);
    norm1 = load_norm4(0, k + 4);
  }
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    vec4 x0, x1;
    if (kLayerNorm) {
      uint quad = r * kQuads + min(k, kColumns - 8) / 4;
      x0 = k < kColumns ? normed[quad] : vec4(0.0);
      x1 = k < kColumns ? normed[quad + 1] : vec4(0.0);
    } else {
      x0 = load_in4(r, k);
      x1 = load_in4(r, k + 4);
    }
    if (kRmsNorm) {
      squares[r] += dot(x0, x0) + dot(x1, x1);
      x0 *= norm0;
      x1 *= norm1;
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

void sum_blocks(uint first, uint part) {
  uint lane = gl_SubgroupInvocationID, own = gl_SubgroupID * kLanes * kLanePitch;
  for (uint start = part * kLanes * 32; start < kIn; start += kSplit * kLanes * 32) {
    // The row is zero after the last column.
    uint k = min(start + lane * 32, kIn - 32);
    CodeBlock blocks[kOuts];
    [[unroll]] for (uint o = 0; o < kOuts; ++o) {
      blocks[o] = load_block(weight, scale, weight_row(first, o), kIn, k);
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
  if (kExperts != 0) {
    uint slot = gl_WorkGroupID.y;
    if (kExperts == 2 && RowBuffer(rows).v[slot / n_used].sequence < 0) return;
    first_weight_row = U32Buffer(ids).v[slot] * n_out;
    in_row = slot / in_slots;
    out_row = slot;
  }

  [[unroll]] for (uint i = 0; i < kSums; ++i) sums[i] = 0.0;
  [[unroll]] for (uint r = 0; r < kRows; ++r) squares[r] = 0.0;
  uint own = (part * kLanes + gl_SubgroupInvocationID) * 8;  // the lane's first column
  if (!kByBlocks) load_weights(first, own);
  // These loads are under way while the sums are computed.
  uint own_result = min(gl_LocalInvocationID.x, kOutGroups * kPairs * kRows - 1);
  Epilogue epilogue = load_epilogue(own_result);
  wait_for_stage(stages);
  float before = load_residual(own_result);
  if (kLayerNorm) norm_rows();
  if (kByBlocks) sum_blocks(first, part);
  for (uint step = 0; !kByBlocks && step < kSteps; step += kAhead) {
    if (step != 0) load_weights(first, own + step * kStep);
    [[unroll]] for (uint t = 0; t < kAhead; ++t) add_products(t, own + (step + t) * kStep);
  }
  [[unroll]] for (uint i = 0; i < kParts; ++i) {
    float sum = subgroupAdd(i < kSums ? sums[i] : squares[i - kSums]);
    if (gl_SubgroupInvocationID == 0) parts[gl_SubgroupID * kParts + i] = sum;
  }
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < kOutGroups * kPairs * kRows; i += gl_WorkGroupSize.x) {
    if (i != gl_LocalInvocationID.x) {
      epilogue = load_epilogue(i);
      before = load_residual(i);
    }
    uint group = i / (kPairs * kRows);
    uint slot = i % (kPairs * kRows);
    uint o = (gl_WorkGroupID.x * kOutGroups + group) * kPairs + slot / kRows;
    uint r = slot % kRows;
    if (o >= n_out) continue;
    float value = add_parts(group, slot);
    float other = kGated ? add_parts(group, slot + kPairs * kRows) : 0.0;
    if (kRmsNorm) {
      float factor = inversesqrt(add_parts(group, kSums + r) / float(kIn) + kEpsilon);
      value *= factor;
      other *= factor;
    }
    value = activate(kActivation, value * epilogue.scale + epilogue.bias);
    if (kGated) value *= other * epilogue.other_scale + epilogue.other_bias;
    value += before;
    store_float(out_, (out_row + r) * out_row_stride + o, kOutDtype, value);
  }
  count_workgroups(stages, 1, gl_WorkGroupID.x == 0);
}

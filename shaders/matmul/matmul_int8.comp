// matmul for 1 to 8 rows by quantized weights, with int8 activations: codes are multiplied four at
// a time, and the products of a group of columns are added in i32.
//
// Rows of int8 are read as they are. Others a workgroup quantizes to shared memory, kChunk columns
// at a time. With a norm, a column is first multiplied by the norm's weight, and the root mean
// square of a row divides its sums at the end.
//
// A workgroup has kOutGroups * kSplit subgroups. In each of kTurns turns, a subgroup sums kOuts rows
// of the weight over its part of the columns, 32 columns per lane. The kSplit parts of a sum are
// added in shared memory. The first half of the rows are gates if the product is gated. Grid: blocks
// of outputs.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "stage_order.glsl"
#include "int8_rows.glsl"
#include "matmul/matmul_epilogue.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kRows = 1;
layout(constant_id = 2) const uint kOuts = 2;
layout(constant_id = 3) const uint kOutGroups = 1;
layout(constant_id = 4) const uint kSplit = 1;
layout(constant_id = 5) const uint kDtypes = 0;  // of in, and of out from bit 4
layout(constant_id = 6) const uint kWeightFormat = 0;
layout(constant_id = 7) const uint kFlags = 0;
layout(constant_id = 8) const uint kPresent = 0;
layout(constant_id = 9) const uint kActivation = 0;
layout(constant_id = 10) const uint kOut = 1;    // outputs of a row
layout(constant_id = 11) const uint kIn = 32;    // columns, a multiple of 32
layout(constant_id = 12) const uint kChunk = 32; // columns, a multiple of 32
layout(constant_id = 13) const float kNormEpsilon = 0.0;
layout(constant_id = 14) const uint kTurns = 1;
#include "quantized.glsl"

layout(push_constant) uniform Push {
  Address out_, in_, weight, bias, residual, scale, norm;
  StageCounters stages;
};

const uint kInDtype = kDtypes & 15u;
const uint kOutDtype = kDtypes >> 4;
const bool kGated = (kFlags & kMatmulGated) != 0;
const bool kNorm = (kPresent & kHasRmsNorm) != 0;
const uint kPairs = kGated ? kOuts / 2 : kOuts;  // outputs of a subgroup
const uint kWidth = kTurns * kOutGroups * kPairs;  // outputs of a workgroup
const bool kInt8Rows = kInDtype == kDTypeI8;
const uint kBlocks = kChunk / 32;
const uint kLanes = gl_WorkGroupSize.x / (kOutGroups * kSplit);
const uint kQuads = (kChunk / 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint kBatch = kQuads < 8 ? kQuads : 8;
const bool kOneChunk = kChunk >= kIn;
const uint kStep = kSplit * kLanes;  // blocks that the subgroups of an output take at once

// A block is in two halves of 16 bytes, so that lanes read from different banks.
shared uvec4 row_codes[2][kInt8Rows ? 1 : kRows * kBlocks];
shared float row_scales[kInt8Rows ? 1 : kRows * kBlocks];
shared ivec2 row_totals[kInt8Rows ? 1 : kRows * kBlocks];  // sums of the codes of the halves
shared float row_squares[kRows * kOutGroups * kSplit];
shared float parts[kTurns * kOutGroups * kSplit * kOuts * kRows];

float squares[kRows];  // of the columns that this thread has read

// Weights of the norm of the first kBatch times four columns that this thread quantizes.
vec4 norm_weights[kBatch];

// Those of the chunk from column `first`.
void load_norm_weights(uint first) {
  [[unroll]] for (uint j = 0; kNorm && j < kBatch; ++j) {
    uint i = j * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    norm_weights[j] = Vec4Buffer(norm).v[min(first / 4 + i, kIn / 4 - 1)];
  }
}

// Quantizes the columns from `first` of every row. A thread loads kBatch times four columns at
// once. Adds the squares of the columns if they count.
void quantize_chunk(uint first, bool counts) {
  uint n = min(kChunk, kIn - first) / 4;
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    for (uint base = 0; base < n; base += kBatch * gl_WorkGroupSize.x) {
      vec4 x[kBatch], factors[kBatch];
      [[unroll]] for (uint j = 0; j < kBatch; ++j) {
        uint i = base + j * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
        uint column = min(i, n - 1), at = (r * kIn + first) / 4 + column;
        x[j] = kInDtype == kDTypeF16 ? unpack_half4(UVec2Buffer(in_).v[at]) : Vec4Buffer(in_).v[at];
        if (kNorm) {
          factors[j] = norm_weights[j];
          if (base != 0) factors[j] = Vec4Buffer(norm).v[first / 4 + column];
        }
      }
      [[unroll]] for (uint j = 0; j < kBatch; ++j) {
        uint i = base + j * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
        if (kNorm) {
          if (counts && i < n) squares[r] += dot(x[j], x[j]);
          x[j] *= factors[j];
        }
        Int8Quad quad = quantize(x[j]);
        if (i >= n) continue;
        uint block = r * kBlocks + i / 8;
        row_codes[i / 4 % 2][block][i % 4] = quad.codes;
        if (i % 4 == 0) row_totals[block][i / 4 % 2] = quad.total;
        if (i % 8 == 0) row_scales[block] = quad.scale;
      }
    }
  }
}

CodeBlock blocks[kOuts];  // one of each row of the weight
float sums[kOuts * kRows];

// The blocks of columns 32 b to 32 b + 31 of the chunk that begins at `first`.
void load_blocks(uint first_out, uint first, uint b) {
  [[unroll]] for (uint o = 0; o < kOuts; ++o) {
    uint row = min(first_out + o % kPairs, kOut - 1) + o / kPairs * kOut;
    blocks[o] = load_block(weight, scale, row, kIn, first + b * 32);
  }
}

// Adds the products of `blocks` with block b of every row, and loads the next blocks.
void add_blocks(uint first_out, uint first, uint b, uint n_blocks) {
  uvec2 codes[kOuts][4];
  vec2 groups[kOuts][2];
  [[unroll]] for (uint o = 0; o < kOuts; ++o) {
    [[unroll]] for (uint i = 0; i < 4; ++i) codes[o][i] = block_codes(blocks[o], i);
    [[unroll]] for (uint i = 0; i < 2; ++i) groups[o][i] = group_scale(blocks[o].groups[i]);
  }
  if (b + kStep < n_blocks) load_blocks(first_out, first, b + kStep);
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    uvec4 low, high;
    float scale;
    ivec2 totals;
    if (kInt8Rows) {
      uint block = r * (kIn / 32) + b;
      low = UVec4Buffer(in_).v[2 * block];
      high = UVec4Buffer(in_).v[2 * block + 1];
      uvec2 both = UVec2Buffer(in_).v[kRows * (kIn / 8) + block];
      scale = uintBitsToFloat(both.x);
      totals = ivec2(bitfieldExtract(int(both.y), 0, 16), int(both.y) >> 16);
    } else {
      uint block = r * kBlocks + b;
      low = row_codes[0][block];
      high = row_codes[1][block];
      scale = row_scales[block];
      totals = row_totals[block];
    }
    [[unroll]] for (uint o = 0; o < kOuts; ++o) {
      // Sums below 2^22 in the low bits of 1.5 * 2^23: GPUs convert integers slowly.
      ivec2 dots = ivec2(0x4b400000);
      if (kScaleKinds == 1u) dots -= int(kZero) * totals;
      dots.x += dot_bytes(low.x, codes[o][0].x, 0) + dot_bytes(low.y, codes[o][0].y, 0) +
                dot_bytes(low.z, codes[o][1].x, 0) + dot_bytes(low.w, codes[o][1].y, 0);
      dots.y += dot_bytes(high.x, codes[o][2].x, 0) + dot_bytes(high.y, codes[o][2].y, 0) +
                dot_bytes(high.z, codes[o][3].x, 0) + dot_bytes(high.w, codes[o][3].y, 0);
      float sum;
      if (kGroup == 16u) {
        vec2 halves = intBitsToFloat(dots) - 12582912.0;
        sum = halves.x * groups[o][0].x + halves.y * groups[o][1].x;
        if (kScaleKinds == 2u) {
          sum += float(totals.x) * groups[o][0].y + float(totals.y) * groups[o][1].y;
        }
      } else {
        sum = (intBitsToFloat(dots.x + dots.y - 0x4b400000) - 12582912.0) * groups[o][0].x;
        if (kScaleKinds == 2u) sum += float(totals.x + totals.y) * groups[o][0].y;
      }
      sums[o * kRows + r] += scale * sum;
    }
  }
}

// Output o of the workgroup's outputs in row r, from the sums in shared memory.
float output_value(uint r, uint o) {
  float value = 0.0, other = 0.0, factor = 1.0;
  uint slot = (o / kPairs * kSplit * kOuts + o % kPairs) * kRows + r;
  for (uint s = 0; s < kSplit; ++s, slot += kOuts * kRows) {
    value += parts[slot];
    if (kGated) other += parts[slot + kPairs * kRows];
  }
  if (kNorm) {
    float total = 0.0;
    for (uint s = 0; s < kOutGroups * kSplit; ++s) {
      total += row_squares[r * kOutGroups * kSplit + s];
    }
    factor = inversesqrt(total / float(kIn) + kNormEpsilon);
  }
  uint at = min(gl_WorkGroupID.x * kWidth + o, kOut - 1);
  value *= factor;
  if ((kPresent & kHasBias) != 0) value += F32Buffer(bias).v[at];
  value = activate(kActivation, value);
  if (kGated) {
    other *= factor;
    if ((kPresent & kHasBias) != 0) other += F32Buffer(bias).v[kOut + at];
    value *= other;
  }
  if ((kPresent & kHasResidual) != 0) value += F32Buffer(residual).v[r * kOut + at];
  return value;
}

void main() {
  uint first_block = gl_SubgroupID % kSplit * kLanes + gl_SubgroupInvocationID;
  [[unroll]] for (uint r = 0; r < kRows; ++r) squares[r] = 0.0;
  // Turns share the quantized rows if those fit in one chunk.
  for (uint turn = 0; turn < kTurns; ++turn) {
    uint group = (gl_WorkGroupID.x * kTurns + turn) * kOutGroups + gl_SubgroupID / kSplit;
    uint first_out = group * kPairs;
    [[unroll]] for (uint i = 0; i < kOuts * kRows; ++i) sums[i] = 0.0;
    for (uint first = 0; first < kIn; first += kChunk) {
      uint n_blocks = min(kChunk, kIn - first) / 32;
      if (turn == 0 || !kOneChunk) {
        // The first loads are under way while the rows are quantized.
        load_blocks(first_out, first, min(first_block, n_blocks - 1));
        load_norm_weights(first);
        if (turn == 0 && first == 0) wait_for_stage(stages);
        if (!kInt8Rows) {
          if (turn != 0 || first != 0) barrier();  // the chunk before has been read
          quantize_chunk(first, turn == 0);
          barrier();
        }
      }
      for (uint b = first_block; b < n_blocks; b += kStep) {
        add_blocks(first_out, first, b, n_blocks);
      }
    }
    // Those of the next turn, while the sums of this one are added.
    if (kOneChunk && turn + 1 < kTurns) {
      load_blocks(first_out + kOutGroups * kPairs, 0, min(first_block, kIn / 32 - 1));
    }
    [[unroll]] for (uint i = 0; i < kOuts * kRows; ++i) {
      float sum = subgroupAdd(sums[i]);
      uint slot = (turn * kOutGroups * kSplit + gl_SubgroupID) * kOuts * kRows + i;
      if (gl_SubgroupInvocationID == 0) parts[slot] = sum;
    }
  }
  if (kNorm) {
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      float sum = subgroupAdd(squares[r]);
      if (gl_SubgroupInvocationID == 0) row_squares[r * kOutGroups * kSplit + gl_SubgroupID] = sum;
    }
  }
  barrier();
  if (kOutDtype == kDTypeI8) {
    for (uint i = gl_LocalInvocationID.x; i < kWidth / 4 * kRows; i += gl_WorkGroupSize.x) {
      uint r = i / (kWidth / 4), o = i % (kWidth / 4) * 4, first = gl_WorkGroupID.x * kWidth + o;
      if (first >= kOut) continue;  // with all lanes of its block
      vec4 values;
      [[unroll]] for (uint j = 0; j < 4; ++j) values[j] = output_value(r, o + j);
      store_int8(out_, kRows * kOut, r * kOut + first, values);
    }
  } else {
    for (uint i = gl_LocalInvocationID.x; i < kWidth * kRows; i += gl_WorkGroupSize.x) {
      uint r = i / kWidth, o = gl_WorkGroupID.x * kWidth + i % kWidth;
      if (o < kOut) store_float(out_, r * kOut + o, kOutDtype, output_value(r, i % kWidth));
    }
  }
  count_workgroups(stages, 1, gl_WorkGroupID.x == 0);
}

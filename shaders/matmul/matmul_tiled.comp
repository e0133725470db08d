// matmul for many rows in f32. A workgroup computes a tile of kTileRows x kTileOuts, a thread 8 x 8
// of it in registers, over blocks of kDepth columns in shared memory.
// Grid: (blocks of outputs, blocks of rows). Threads: kTileRows / 8 * kTileOuts / 8.
// Also expert_matmul for slots grouped by expert. Grid: (blocks of outputs, tiles of slots).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "buffers.glsl"
#include "matmul/matmul_epilogue.glsl"
#include "weights.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kTileRows = 64;
layout(constant_id = 2) const uint kTileOuts = 64;
layout(constant_id = 3) const uint kInDtype = 0;
layout(constant_id = 4) const uint kOutDtype = 0;
layout(constant_id = 5) const uint kWeightFormat = 0;
layout(constant_id = 6) const uint kFlags = 0;
layout(constant_id = 7) const uint kPresent = 0;
layout(constant_id = 8) const uint kAligned = 1;  // rows of `in` are aligned to 4 elements
layout(constant_id = 9) const uint kActivation = 0;
layout(constant_id = 10) const uint kExperts = 0;  // 1: expert_matmul
#include "quantized.glsl"

layout(push_constant) uniform Push {
  Address out_, in_, weight, bias, residual, scale;
  MatmulParams p;
  // of expert_matmul
  Address slots;
  ExpertTileBuffer tiles;
  uint in_slots;  // slots of a row of `in`
};

const uint kDepth = 16;
const uint kThreadsAcross = kTileOuts / 8;
const uint kInPitch = kTileRows + 4;
const uint kWeightPitch = kTileOuts + 4;
shared float in_tile[kDepth * kInPitch];
shared float weight_tile[kDepth * kWeightPitch];

// The slot of row `row` of an expert's tile.
uint slot_of(ExpertTile tile, uint row) { return U32Buffer(slots).v[tile.first + row]; }

vec4 load_in4(uint row_start, bool row_exists, uint k) {
  vec4 x = vec4(0.0);
  if (!row_exists) return x;
  if (kAligned != 0) return k < p.n_in ? load_vec4(in_, row_start + k, kInDtype) : x;
  [[unroll]] for (uint j = 0; j < 4; ++j) {
    if (k + j < p.n_in) x[j] = load_float(in_, row_start + k + j, kInDtype);
  }
  return x;
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  uint first_row = gl_WorkGroupID.y * kTileRows;
  uint first_out = gl_WorkGroupID.x * kTileOuts;
  uint n_rows = p.n_rows, first_weight_row = 0;
  ExpertTile tile = ExpertTile(0, 0, 0);
  if (kExperts != 0) {
    tile = tiles.v[gl_WorkGroupID.y];
    if (tile.n == 0) return;
    first_row = 0;
    n_rows = tile.n;
    first_weight_row = tile.expert * p.n_out;
  }
  uint thread_row = thread / kThreadsAcross * 8;
  uint thread_out = thread % kThreadsAcross * 8;
  uint columns = padded_columns(p.n_in);

  float sums[64];
  [[unroll]] for (uint i = 0; i < 64; ++i) sums[i] = 0.0;
  for (uint k0 = 0; k0 < columns; k0 += kDepth) {
    for (uint i = thread; i < kTileRows * (kDepth / 4); i += gl_WorkGroupSize.x) {
      uint row = i / (kDepth / 4), k = i % (kDepth / 4) * 4;
      uint r = first_row + row;
      uint start = r / p.rows_per_batch * p.in_batch_stride + r % p.rows_per_batch * p.in_row_stride;
      if (kExperts != 0) start = r < n_rows ? slot_of(tile, r) / in_slots * p.in_row_stride : 0;
      vec4 x = load_in4(start, r < n_rows, k0 + k);
      [[unroll]] for (uint j = 0; j < 4; ++j) in_tile[(k + j) * kInPitch + row] = x[j];
    }
    for (uint i = thread; i < kTileOuts * (kDepth / 4); i += gl_WorkGroupSize.x) {
      uint row = i / (kDepth / 4), k = i % (kDepth / 4) * 4;
      uint o = first_weight_row + min(first_out + row, p.n_out - 1);
      vec4 w;
      if (kInBlocks) {
        uvec2 codes = load_codes(weight, o, p.n_in, (k0 + k) & ~7u);
        vec2 group = load_group_scale(scale, o, p.n_in, k0 + k);
        w = code_values((k & 4u) != 0u ? codes.y : codes.x) * group.x + group.y;
      } else {
        w = load_weight4(weight, o * columns + k0 + k, kWeightFormat);
      }
      [[unroll]] for (uint j = 0; j < 4; ++j) weight_tile[(k + j) * kWeightPitch + row] = w[j];
    }
    barrier();
    for (uint k = 0; k < kDepth; ++k) {
      float w[8];
      [[unroll]] for (uint j = 0; j < 8; ++j) w[j] = weight_tile[k * kWeightPitch + thread_out + j];
      [[unroll]] for (uint i = 0; i < 8; ++i) {
        float x = in_tile[k * kInPitch + thread_row + i];
        [[unroll]] for (uint j = 0; j < 8; ++j) sums[i * 8 + j] = fma(x, w[j], sums[i * 8 + j]);
      }
    }
    barrier();
  }

  [[unroll]] for (uint i = 0; i < 8; ++i) {
    uint r = first_row + thread_row + i;
    if (r >= n_rows) break;
    uint batch_row = r % p.rows_per_batch;
    uint start = r / p.rows_per_batch * p.out_batch_stride + batch_row * p.out_row_stride;
    if (kExperts != 0) start = slot_of(tile, r) * p.out_row_stride;
    [[unroll]] for (uint j = 0; j < 8; ++j) {
      uint o = first_out + thread_out + j;
      if (o < p.n_out) {
        float value = sums[i * 8 + j];
        if ((kPresent & kHasScale) != 0) value *= F32Buffer(scale).v[first_weight_row + o];
        if ((kPresent & kHasBias) != 0) value += F32Buffer(bias).v[first_weight_row + o];
        value = activate(kActivation, value);
        if ((kPresent & kHasResidual) != 0) {
          uint from = (kFlags & kMatmulResidualByRow) != 0 ? batch_row * p.n_out + o : start + o;
          value += F32Buffer(residual).v[from];
        }
        store_float(out_, start + o, kOutDtype, value);
      }
    }
  }
}

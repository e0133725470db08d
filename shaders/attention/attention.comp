// attention: flash attention in f32. A workgroup of 64 threads takes 32 rows of one head of one
// sequence. Keys and values go through one tile of shared memory, 32 at a time. A thread holds 4 x
// 4 scores, and 4 rows x head_dim / 8 of the output.
// Grid: (blocks of rows, heads, sequences); packed sequences: (blocks, heads, 1).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "buffers.glsl"
#include "attention/attention_rows.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 1) const uint kHeadDim = 64;
layout(constant_id = 2) const uint kInDtype = 0;
layout(constant_id = 3) const uint kOutDtype = 0;
layout(constant_id = 4) const uint kPacked = 0;
layout(constant_id = 5) const uint kMasked = 0;  // rows see only some rows
layout(constant_id = 6) const uint kHasBias = 0;
layout(constant_id = 7) const uint kHasSinks = 0;

layout(push_constant) uniform Push {
  Address out_, q, k, v, starts, bias, sinks;
  AttentionParams p;
};

const uint kTile = 32;
const uint kPitch = kHeadDim + 1;
const uint kScorePitch = kTile + 1;
const uint kDims = kHeadDim / 8;  // of the output, per thread
shared float q_tile[kTile * kPitch];
shared float kv_tile[kTile * kPitch];
shared float scores[kTile * kScorePitch];
shared float row_correction[kTile];
shared float row_total[kTile];

void main() {
  uint thread = gl_LocalInvocationID.x;
  uint first_row = gl_WorkGroupID.x * kTile;
  uint head = gl_WorkGroupID.y;
  uint kv_head = head / (p.n_heads / p.n_kv_heads);
  uint sequence_start = gl_WorkGroupID.z * p.rows_per_sequence;
  uint n = p.rows_per_sequence;
  if (kPacked != 0) {
    AttentionBlock block = packed_block(starts, p.n_sequences, gl_WorkGroupID.x, kTile);
    if (block.n == 0) return;
    sequence_start = block.sequence_start;
    n = block.n;
    first_row = block.first_row;
  }
  // Keys visible to some row of the block, and to row `thread`.
  uint first_key = 0, end_key = n;
  uvec2 visible = uvec2(0, n);
  if (kMasked != 0) {
    first_key = visible_rows(first_row, n, p.causal, p.window).x / kTile * kTile;
    end_key = visible_rows(min(first_row + kTile, n) - 1, n, p.causal, p.window).y;
    visible = visible_rows(min(first_row + thread, n - 1), n, p.causal, p.window);
  }
  uint y = thread / 8 * 4;  // first row of this thread
  uint x = thread % 8;      // its columns: x, x + 8, ...

  for (uint i = thread; i < kTile * kHeadDim; i += 64) {
    uint row = min(first_row + i / kHeadDim, n - 1);
    q_tile[i / kHeadDim * kPitch + i % kHeadDim] =
        p.scale * load_float(q, (sequence_start + row) * p.q_row_stride + head * kHeadDim + i % kHeadDim,
                             kInDtype);
  }
  float sums[4 * kDims];
  [[unroll]] for (uint i = 0; i < 4 * kDims; ++i) sums[i] = 0.0;
  // Below every score, but finite: a row may see none of the first keys.
  float greatest = -1e30, total = 0.0;  // of row `thread`, if it is below kTile

  for (uint first = first_key; first < end_key; first += kTile) {
    uint count = min(kTile, end_key - first);
    barrier();
    for (uint i = thread; i < kTile * kHeadDim; i += 64) {
      uint row = min(first + i / kHeadDim, n - 1);
      kv_tile[i / kHeadDim * kPitch + i % kHeadDim] = load_float(
          k, (sequence_start + row) * p.k_row_stride + kv_head * kHeadDim + i % kHeadDim, kInDtype);
    }
    barrier();
    float s[16];
    [[unroll]] for (uint i = 0; i < 16; ++i) s[i] = 0.0;
    for (uint d = 0; d < kHeadDim; ++d) {
      float key[4];
      [[unroll]] for (uint j = 0; j < 4; ++j) key[j] = kv_tile[(x + j * 8) * kPitch + d];
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        float query = q_tile[(y + i) * kPitch + d];
        [[unroll]] for (uint j = 0; j < 4; ++j) s[i * 4 + j] = fma(query, key[j], s[i * 4 + j]);
      }
    }
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      [[unroll]] for (uint j = 0; j < 4; ++j) scores[(y + i) * kScorePitch + x + j * 8] = s[i * 4 + j];
    }
    barrier();
    for (uint i = thread; i < kTile * kHeadDim; i += 64) {
      uint row = min(first + i / kHeadDim, n - 1);
      kv_tile[i / kHeadDim * kPitch + i % kHeadDim] = load_float(
          v, (sequence_start + row) * p.v_row_stride + kv_head * kHeadDim + i % kHeadDim, kInDtype);
    }
    if (thread < kTile) {
      float new_greatest = greatest;
      uint begin = 0, end = count;
      if (kMasked != 0) {
        begin = max(visible.x, first) - first;
        end = min(max(visible.y, first) - first, count);
      }
      if (kHasBias != 0) {
        // Of distance 0. Threads after the last row of the sequence read the element of that row.
        uint of_row = head * (2 * p.bias_reach + 1) + p.bias_reach + min(first_row + thread, n - 1);
        for (uint t = begin; t < end; ++t) {
          scores[thread * kScorePitch + t] += F32Buffer(bias).v[of_row - (first + t)];
        }
      }
      for (uint t = begin; t < end; ++t) new_greatest = max(new_greatest, scores[thread * kScorePitch + t]);
      float correction = exp(greatest - new_greatest);
      float sum = 0.0;
      for (uint t = 0; t < kTile; ++t) {
        float weight = t >= begin && t < end ? exp(scores[thread * kScorePitch + t] - new_greatest) : 0.0;
        scores[thread * kScorePitch + t] = weight;
        sum += weight;
      }
      total = total * correction + sum;
      greatest = new_greatest;
      row_correction[thread] = correction;
    }
    barrier();
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      float correction = row_correction[y + i];
      [[unroll]] for (uint j = 0; j < kDims; ++j) sums[i * kDims + j] *= correction;
    }
    for (uint t = 0; t < kTile; ++t) {
      float weight[4];
      [[unroll]] for (uint i = 0; i < 4; ++i) weight[i] = scores[(y + i) * kScorePitch + t];
      [[unroll]] for (uint j = 0; j < kDims; ++j) {
        float value = kv_tile[t * kPitch + x + j * 8];
        [[unroll]] for (uint i = 0; i < 4; ++i) sums[i * kDims + j] = fma(weight[i], value, sums[i * kDims + j]);
      }
    }
  }
  if (kHasSinks != 0) total += exp(min(F32Buffer(sinks).v[head] - greatest, kMostExponent));
  if (thread < kTile) row_total[thread] = total;
  barrier();
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    uint row = first_row + y + i;
    if (row < n) {
      float scale = 1.0 / row_total[y + i];
      [[unroll]] for (uint j = 0; j < kDims; ++j) {
        store_float(out_, (sequence_start + row) * p.out_row_stride + head * kHeadDim + x + j * 8,
                    kOutDtype, sums[i * kDims + j] * scale);
      }
    }
  }
}

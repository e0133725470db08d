// attention on matrix units (attention_tile.glsl), for consecutive or packed rows.
// Grid: (blocks of rows, heads, sequences); packed sequences: (blocks, heads, 1).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "buffers.glsl"
#include "attention/attention_rows.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHeadDim = 64;
layout(constant_id = 2) const uint kSubgroups = 4;
layout(constant_id = 3) const uint kDown = 2;
layout(constant_id = 4) const uint kSide = 16;
layout(constant_id = 5) const uint kInner = 16;
layout(constant_id = 6) const uint kOutDtype = 0;
layout(constant_id = 7) const uint kLanesPerRow = 2;  // subgroup size / kSide
layout(constant_id = 8) const uint kKeys = 64;  // at least kRows / 2: queries go through the same
                                                // memory
layout(constant_id = 9) const uint kPacked = 0;
layout(constant_id = 10) const uint kMasked = 0;  // rows see only some rows
layout(constant_id = 11) const uint kInRegisters = 0;
layout(constant_id = 12) const uint kBuffers = 1;  // of keys and values, 1 or 2
layout(constant_id = 13) const uint kHasSinks = 0;

layout(push_constant) uniform Push {
  Address out_, q, k, v, starts, bias, sinks;
  AttentionParams p;
};

#include "attention/attention_tile.glsl"

uint n_rows;          // of the sequence
uint sequence_start;  // in all rows

uvec4 query_chunk(uint head, uint row, uint chunk) {
  return UVec4Buffer(q).v[((sequence_start + row) * p.q_row_stride + head * kHeadDim) / 8 + chunk];
}
uvec2 key_rows(uint kv_head, uint key) {
  uint row = sequence_start + key;
  return (row * uvec2(p.k_row_stride, p.v_row_stride) + kv_head * kHeadDim) / 8;
}
uint own_key(uint row) { return row; }
uvec4 load_keys(uint row, uint chunk) { return UVec4Buffer(k).v[row + chunk]; }
uvec4 load_values(uint row, uint chunk) { return UVec4Buffer(v).v[row + chunk]; }
uvec4 widened_keys(uvec4 loaded, uint chunk) { return loaded; }
uvec4 widened_values(uvec4 loaded, uint chunk) { return loaded; }
float exponent(float dot) { return dot * (p.scale * kLog2E); }
uvec2 visible_keys(uint row) { return visible_rows(row, n_rows, p.causal, p.window); }
void store_result(uint head, uint row, uint column, vec4 value) {
  uint at = (sequence_start + row) * p.out_row_stride + head * kHeadDim + column;
  store_vec4(out_, at, kOutDtype, value);
}

void main() {
  uint first_row = gl_WorkGroupID.x * kRows;
  uint head = gl_WorkGroupID.y;
  n_rows = p.rows_per_sequence;
  sequence_start = gl_WorkGroupID.z * n_rows;
  if (kPacked != 0) {
    AttentionBlock block = packed_block(starts, p.n_sequences, gl_WorkGroupID.x, kRows);
    if (block.n == 0) return;
    sequence_start = block.sequence_start;
    n_rows = block.n;
    first_row = block.first_row;
  }
  // Keys visible to some row of the block.
  uint first_key = 0, end_key = n_rows;
  if (kMasked != 0) {
    first_key = visible_rows(first_row, n_rows, p.causal, p.window).x / kKeys * kKeys;
    end_key = visible_rows(min(first_row + kRows, n_rows) - 1, n_rows, p.causal, p.window).y;
  }
  attend(head, head / (p.n_heads / p.n_kv_heads), first_row, n_rows, first_key, end_key);
}

// paged_attention on matrix units (attention_tile.glsl) for a prompt: successive positions of one
// sequence. Keys and values are f16, or with VESPER_QUANTIZED_KV of any format.
// Grid: (blocks of rows, heads).
#ifndef VESPER_SHADERS_PAGED_ATTENTION_TILE_GLSL_
#define VESPER_SHADERS_PAGED_ATTENTION_TILE_GLSL_

#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#ifdef VESPER_QUANTIZED_KV
#include "kv_pages.glsl"
#else
#include "buffers.glsl"
#endif

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
layout(constant_id = 9) const uint kPageRows = 32;
layout(constant_id = 10) const uint kSoftCap = 0;
#ifdef VESPER_QUANTIZED_KV
layout(constant_id = 11) const uint kKeyDtype = kDTypeF16;
layout(constant_id = 12) const uint kValueDtype = kDTypeF16;
#endif
layout(constant_id = 13) const uint kInRegisters = 0;
layout(constant_id = 14) const uint kBuffers = 1;  // of keys and values, 1 or 2
layout(constant_id = 15) const uint kHasSinks = 0;
const uint kMasked = 1;

layout(push_constant) uniform Push {
  Address out_, q, k_pages, v_pages, rows, page_table, sinks;
  PagedAttentionValues p;
};

#include "attention/attention_tile.glsl"

uint first_position, table_start;

uvec4 query_chunk(uint head, uint row, uint chunk) {
  return UVec4Buffer(q).v[(row * p.q_row_stride + head * kHeadDim) / 8 + chunk];
}
// Rows are counted through all pages.
uvec2 key_rows(uint kv_head, uint key) {
  uint page = uint(I32Buffer(page_table).v[table_start + key / kPageRows]);
  return uvec2((page * p.n_kv_heads + kv_head) * kPageRows + key % kPageRows);
}
#ifdef VESPER_QUANTIZED_KV
uvec4 load_quantized(Address pages, uint dtype, uint row, uint chunk) {
  vec4 low, high;
  load_kv8(pages, dtype, row / kPageRows, row % kPageRows, kPageRows, kHeadDim, chunk * 8, low,
           high);
  return uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy),
               packHalf2x16(high.zw));
}
uvec4 load_keys(uint row, uint chunk) {
  if (kKeyDtype == kDTypeF16) return UVec4Buffer(k_pages).v[row * (kHeadDim / 8) + chunk];
  return load_quantized(k_pages, kKeyDtype, row, chunk);
}
uvec4 load_values(uint row, uint chunk) {
  if (kValueDtype == kDTypeF16) return UVec4Buffer(v_pages).v[row * (kHeadDim / 8) + chunk];
  return load_quantized(v_pages, kValueDtype, row, chunk);
}
#else
uvec4 load_keys(uint row, uint chunk) {
  return UVec4Buffer(k_pages).v[row * (kHeadDim / 8) + chunk];
}
uvec4 load_values(uint row, uint chunk) {
  return UVec4Buffer(v_pages).v[row * (kHeadDim / 8) + chunk];
}
#endif
float exponent(float dot) {
  float score = dot * p.scale;
  // tanh is exactly 1 beyond 10. Drivers may compute it from exponentials that overflow.
  if (kSoftCap != 0) score = p.soft_cap * tanh(clamp(score / p.soft_cap, -10.0, 10.0));
  return score * 1.4426950408889634;  // exp(x) = exp2(x / ln 2)
}
uvec2 visible_keys(uint row) {
  uint end = first_position + row + 1;
  return uvec2(p.window != 0 && p.window < end ? end - p.window : 0, end);
}
void store_result(uint head, uint row, uint column, vec4 value) {
  uint at = row * p.out_row_stride + head * kHeadDim + column;
  if (kOutDtype == kDTypeF16) {
    UVec2Buffer(out_).v[at / 4] = uvec2(packHalf2x16(value.xy), packHalf2x16(value.zw));
  } else {
    Vec4Buffer(out_).v[at / 4] = value;
  }
}

void main() {
  uint first_row = gl_WorkGroupID.x * kRows;
  uint head = gl_WorkGroupID.y;
  Row first = RowBuffer(rows).v[0];
  if (first.sequence < 0) return;
  first_position = uint(first.position);
  table_start = uint(first.sequence) * p.pages_per_sequence;
  // Used rows of the block.
  uint mine = 0;
  for (uint r = gl_LocalInvocationID.x; r < kRows; r += kThreads) {
    if (first_row + r < p.n_rows && RowBuffer(rows).v[first_row + r].sequence >= 0) ++mine;
  }
  mine = subgroupAdd(mine);
  if (gl_SubgroupInvocationID == 0) kv_tile[gl_SubgroupID].x = mine;
  barrier();
  uint n = first_row;
  for (uint i = 0; i < kSubgroups; ++i) n += kv_tile[i].x;
  barrier();
  if (n == first_row) return;
  uint first_key = visible_keys(first_row).x / kKeys * kKeys;
  attend(head, head / (p.n_heads / p.n_kv_heads), first_row, n, first_key, first_position + n);
}

#endif

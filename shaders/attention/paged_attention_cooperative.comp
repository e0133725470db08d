// paged_attention on matrix units (attention_tile.glsl) for a prompt: successive positions of one
// sequence. Keys and values are f16, q8_0 or q4_0 (kernel_params.h).
//
// Sizes of rows are constants of the pipeline. With the functions of kernel_params.h and kv_pages.glsl
// for them, NVIDIA's compiler (driver 580) does not unroll loops, keeps matrices in memory, and a
// prompt of 8,192 tokens takes 2.5 times as long.
// The last rows, which see the most keys, come first, so that the last workgroups are short ones.
// Grid: (heads, blocks of rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "buffers.glsl"

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
layout(constant_id = 10) const float kSoftCap = 0.0;
layout(constant_id = 11) const uint kKeyDtype = kDTypeF16;
layout(constant_id = 12) const uint kValueDtype = kDTypeF16;
layout(constant_id = 13) const uint kInRegisters = 0;
layout(constant_id = 14) const uint kBuffers = 1;  // of keys and values, 1 or 2
layout(constant_id = 15) const uint kHasSinks = 0;
layout(constant_id = 16) const float kScale = 1.0;
layout(constant_id = 17) const uint kKvHeads = 1;
const uint kMasked = 1;

// Of a row of codes, and the scales of a row (kernel_params.h).
const uint kKeyRowBytes = kKeyDtype == kDTypeQ8_0 ? kHeadDim : kHeadDim / 2;
const uint kKeyRowScales = kKeyDtype == kDTypeQ8_0 ? kHeadDim / 32 : kHeadDim / 16;
const uint kValueRowBytes = kValueDtype == kDTypeQ8_0 ? kHeadDim : kHeadDim / 2;
const uint kValueRowScales = kValueDtype == kDTypeQ8_0 ? kHeadDim / 32 : kHeadDim / 16;

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
  return uvec2((page * kKvHeads + kv_head) * kPageRows + key % kPageRows);
}
uint own_key(uint row) { return first_position + row; }
// Eight codes, and the bits of their scale.
uvec4 load_codes(Address pages, uint row_bytes, uint row_scales, uint row, uint codes, uint scale) {
  uint head = row / kPageRows, row_of_page = row % kPageRows;
  uint start = head * (kPageRows * (row_bytes + row_scales * 2) / 8);  // in eight bytes
  uint scales = start * 4 + kPageRows * row_bytes / 2 + row_of_page * row_scales;
  return uvec4(UVec2Buffer(pages).v[start + row_of_page * (row_bytes / 8) + codes],
               packFloat2x16(f16vec2(F16Buffer(pages).v[scales + scale], 0.0)), 0);
}
uvec4 load_rows(Address pages, uint dtype, uint row_bytes, uint row_scales, uint row, uint chunk) {
  uvec4 loaded;
  if (dtype == kDTypeF16) {
    loaded = UVec4Buffer(pages).v[row * (kHeadDim / 8) + chunk];
  } else if (dtype == kDTypeQ8_0) {
    loaded = load_codes(pages, row_bytes, row_scales, row, chunk, chunk / 4);
  } else {
    loaded = load_codes(pages, row_bytes, row_scales, row, chunk / 4 * 2 + chunk % 2, chunk / 2);
  }
  return loaded;
}
uvec4 load_keys(uint row, uint chunk) {
  return load_rows(k_pages, kKeyDtype, kKeyRowBytes, kKeyRowScales, row, chunk);
}
uvec4 load_values(uint row, uint chunk) {
  return load_rows(v_pages, kValueDtype, kValueRowBytes, kValueRowScales, row, chunk);
}

// Two codes, as unsigned bytes in the low halves of 16 bits, times their scale. The bits 0x6400 are
// 1024 in f16, and the least of the bits below is 1.
uint widened_pair(uint codes, float16_t offset, float16_t scale) {
  return packFloat2x16((unpackFloat2x16(codes | 0x64006400u) - offset) * scale);
}
uvec4 widened(uvec4 loaded, uint dtype, uint chunk) {
  if (dtype != kDTypeF16) {
    uvec2 bytes = dtype == kDTypeQ8_0 ? loaded.xy ^ 0x80808080u
                                      : loaded.xy >> (chunk % 4 / 2 * 4) & 0x0f0f0f0fu;
    float16_t offset = float16_t(dtype == kDTypeQ8_0 ? 1024.0 + 128.0 : 1024.0 + 8.0);
    float16_t scale = unpackFloat2x16(loaded.z).x;
    uvec2 low = bytes & 0xffu | (bytes & 0xff00u) << 8;
    uvec2 high = bytes >> 16 & 0xffu | bytes >> 8 & 0xff0000u;
    loaded = uvec4(widened_pair(low.x, offset, scale), widened_pair(high.x, offset, scale),
                   widened_pair(low.y, offset, scale), widened_pair(high.y, offset, scale));
  }
  return loaded;
}
uvec4 widened_keys(uvec4 loaded, uint chunk) { return widened(loaded, kKeyDtype, chunk); }
uvec4 widened_values(uvec4 loaded, uint chunk) { return widened(loaded, kValueDtype, chunk); }

float exponent(float dot) {
  float score = dot * kScale;
  // tanh is exactly 1 beyond 10. Drivers may compute it from exponentials that overflow.
  if (kSoftCap != 0.0) score = kSoftCap * tanh(clamp(score / kSoftCap, -10.0, 10.0));
  return score * kLog2E;
}
uvec2 visible_keys(uint row) {
  uint end = first_position + row + 1;
  return uvec2(p.window != 0 && p.window < end ? end - p.window : 0, end);
}
void store_result(uint head, uint row, uint column, vec4 value) {
  uint at = row * p.out_row_stride + head * kHeadDim + column;
  store_vec4(out_, at, kOutDtype, value);
}

void main() {
  uint head = gl_WorkGroupID.x;
  uint first_row = (gl_NumWorkGroups.y - 1 - gl_WorkGroupID.y) * kRows;
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
  attend(head, head / (gl_NumWorkGroups.x / kKvHeads), first_row, n, first_key, first_position + n);
}

// rope: a subgroup has one head of a row: queries, keys, and values if there are pages.
// Grid: (blocks of heads, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "buffers.glsl"
#include "kv_pages.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHeads = 1;  // of a workgroup
layout(constant_id = 2) const uint kHeadDim = 64;
layout(constant_id = 3) const uint kDtype = 0;
layout(constant_id = 4) const uint kKeyDtype = 0;
layout(constant_id = 5) const uint kValueDtype = 0;
layout(constant_id = 6) const uint kPresent = 0;  // 1: angles, 2: weight of q, 4: of k, 8: pages

layout(push_constant) uniform Push {
  Address qkv, rows, angles, q_norm_weight, k_norm_weight, k_pages, v_pages, page_table;
  RopeParams p;
};

shared float heads[kHeads * kHeadDim];

uint lane() { return gl_SubgroupInvocationID; }
uint own() { return gl_SubgroupID * kHeadDim; }  // where the subgroup's head begins in `heads`

void wait_for_head() {
  subgroupMemoryBarrierShared();
  subgroupBarrier();
}

vec4 head4(uint i) {
  uint at = own() + i;
  return vec4(heads[at], heads[at + 1], heads[at + 2], heads[at + 3]);
}

// Stores the head from element `at` of a buffer on.
void store_head(Address to, uint at, uint dtype) {
  for (uint i = lane() * 4; i < kHeadDim; i += gl_SubgroupSize * 4) {
    store_vec4(to, at + i, dtype, head4(i));
  }
}

// Stores the head as row `index` of a head's part of a page.
void store_row(Address pages, uint dtype, uint page_head, uint index) {
  if (!kv_is_quantized(dtype)) {
    store_head(pages, (page_head * p.page_rows + index) * kHeadDim, dtype);
    return;
  }
  for (uint i = lane() * 4; i < kHeadDim; i += gl_SubgroupSize * 4) {
    store_quantized_kv4(pages, dtype, page_head, index, p.page_rows, kHeadDim, i, head4(i));
  }
}

void main() {
  uint h = gl_WorkGroupID.x * kHeads + gl_SubgroupID;
  uint r = gl_WorkGroupID.y;
  bool has_pages = (kPresent & 8u) != 0;
  Row row = RowBuffer(rows).v[r];
  if (row.sequence < 0 || h >= p.n_heads + (has_pages ? 2 : 1) * p.n_kv_heads) return;
  bool is_query = h < p.n_heads, is_value = h >= p.n_heads + p.n_kv_heads;
  uint at = r * p.row_stride + h * kHeadDim;
  float squares = 0.0;
  for (uint i = lane() * 4; i < kHeadDim; i += gl_SubgroupSize * 4) {
    vec4 x = load_vec4(qkv, at + i, kDtype);
    for (uint e = 0; e < 4; ++e) heads[own() + i + e] = x[e];
    squares += dot(x, x);
  }
  wait_for_head();
  if (!is_value && (kPresent & (is_query ? 2u : 4u)) != 0) {
    float factor = inversesqrt(subgroupAdd(squares) / float(kHeadDim) + p.norm_epsilon);
    for (uint i = lane(); i < kHeadDim; i += gl_SubgroupSize) {
      float weight = is_query ? F32Buffer(q_norm_weight).v[i] : F32Buffer(k_norm_weight).v[i];
      heads[own() + i] *= factor * weight;
    }
    wait_for_head();
  }
  if (!is_value && (kPresent & 1u) != 0) {
    uint first = uint(row.position) * p.n_pairs * 2;
    for (uint i = lane(); i < p.n_pairs; i += gl_SubgroupSize) {
      uint a = own() + (p.interleaved != 0 ? 2 * i : i);
      uint b = p.interleaved != 0 ? a + 1 : a + p.n_pairs;
      float x = heads[a], y = heads[b];
      float c = F32Buffer(angles).v[first + 2 * i], s = F32Buffer(angles).v[first + 2 * i + 1];
      heads[a] = x * c - y * s;
      heads[b] = x * s + y * c;
    }
    wait_for_head();
  }
  if (is_query || !has_pages) {
    store_head(qkv, at, kDtype);
    return;
  }
  uint position = uint(row.position);
  uint page = uint(I32Buffer(page_table).v[uint(row.sequence) * p.pages_per_sequence +
                                           position / p.page_rows]);
  uint kv_head = (h - p.n_heads) % p.n_kv_heads;
  uint page_head = page * p.n_kv_heads + kv_head, index = position % p.page_rows;
  if (is_value) {
    store_row(v_pages, kValueDtype, page_head, index);
  } else {
    store_row(k_pages, kKeyDtype, page_head, index);
  }
}

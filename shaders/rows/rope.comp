// rope: one workgroup per head of a row: queries, keys, and values if there are pages.
// Grid: (heads, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "kv_pages.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHeadDim = 64;
layout(constant_id = 2) const uint kDtype = 0;
layout(constant_id = 3) const uint kKeyDtype = 0;
layout(constant_id = 4) const uint kValueDtype = 0;
layout(constant_id = 5) const uint kPresent = 0;  // 1: angles, 2: weight of q, 4: of k, 8: pages

layout(push_constant) uniform Push {
  Address qkv, rows, angles, q_norm_weight, k_norm_weight, k_pages, v_pages, page_table;
  RopeParams p;
};

shared float head[kHeadDim];

// Stores the head as row `index` of a head's part of a page.
void store_row(Address pages, uint dtype, uint page_head, uint index) {
  uint thread = gl_LocalInvocationID.x, stride = gl_WorkGroupSize.x;
  if (kv_is_quantized(dtype)) {
    for (uint i = thread * 4; i < kHeadDim; i += stride * 4) {
      store_quantized_kv4(pages, dtype, page_head, index, p.page_rows, kHeadDim, i,
                          vec4(head[i], head[i + 1], head[i + 2], head[i + 3]));
    }
    return;
  }
  uint to = (page_head * p.page_rows + index) * kHeadDim;
  for (uint i = thread; i < kHeadDim; i += stride) store_float(pages, to + i, dtype, head[i]);
}

void main() {
  uint h = gl_WorkGroupID.x;
  uint r = gl_WorkGroupID.y;
  uint thread = gl_LocalInvocationID.x, stride = gl_WorkGroupSize.x;
  Row row = RowBuffer(rows).v[r];
  if (row.sequence < 0) return;
  bool is_query = h < p.n_heads, is_value = h >= p.n_heads + p.n_kv_heads;
  uint at = r * p.row_stride + h * kHeadDim;
  float squares = 0.0;
  for (uint i = thread; i < kHeadDim; i += stride) {
    float x = load_float(qkv, at + i, kDtype);
    head[i] = x;
    squares += x * x;
  }
  barrier();
  if (!is_value && (kPresent & (is_query ? 2u : 4u)) != 0) {
    float factor = inversesqrt(workgroup_sum(squares) / float(kHeadDim) + p.norm_epsilon);
    for (uint i = thread; i < kHeadDim; i += stride) {
      float weight = is_query ? F32Buffer(q_norm_weight).v[i] : F32Buffer(k_norm_weight).v[i];
      head[i] = head[i] * factor * weight;
    }
    barrier();
  }
  if (!is_value && (kPresent & 1u) != 0) {
    uint first = uint(row.position) * p.n_pairs * 2;
    for (uint i = thread; i < p.n_pairs; i += stride) {
      uint a = p.interleaved != 0 ? 2 * i : i, b = p.interleaved != 0 ? a + 1 : i + p.n_pairs;
      float x = head[a], y = head[b];
      float c = F32Buffer(angles).v[first + 2 * i], s = F32Buffer(angles).v[first + 2 * i + 1];
      head[a] = x * c - y * s;
      head[b] = x * s + y * c;
    }
    barrier();
  }
  if (is_query || (kPresent & 8u) == 0) {
    for (uint i = thread; i < kHeadDim; i += stride) store_float(qkv, at + i, kDtype, head[i]);
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

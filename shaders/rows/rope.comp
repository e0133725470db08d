// rope: one workgroup per head of a row: queries, keys, and values if there are pages.
// Grid: (heads, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHeadDim = 64;
layout(constant_id = 2) const uint kDtype = 0;
layout(constant_id = 3) const uint kKvDtype = 0;
layout(constant_id = 4) const uint kPresent = 0;  // 1: angles, 2: weight of q, 4: of k, 8: pages

layout(push_constant) uniform Push {
  Address qkv, rows, angles, q_norm_weight, k_norm_weight, k_pages, v_pages, page_table;
  RopeParams p;
};

shared float head[kHeadDim];

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
  uint to = ((page * p.n_kv_heads + kv_head) * p.page_rows + position % p.page_rows) * kHeadDim;
  for (uint i = thread; i < kHeadDim; i += stride) {
    if (is_value) {
      store_float(v_pages, to + i, kKvDtype, head[i]);
    } else {
      store_float(k_pages, to + i, kKvDtype, head[i]);
    }
  }
}

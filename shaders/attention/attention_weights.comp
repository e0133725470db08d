// attention_weights: one workgroup per selected head and row. A thread writes the scores of every
// gl_WorkGroupSize-th position to the output, then replaces them with probabilities.
// Grid: (selected heads, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHeadDim = 64;
layout(constant_id = 2) const uint kQDtype = 0;
layout(constant_id = 3) const uint kKvDtype = 0;

layout(push_constant) uniform Push {
  Address out_, q, k_pages, rows, page_table, heads, lengths;
  AttentionWeightsParams p;
};

shared float query[kHeadDim];

// Four elements from i, a multiple of 4.
vec4 load_key(uint i) {
  if (kKvDtype == kDTypeF16) return unpack_half4(UVec2Buffer(k_pages).v[i / 4]);
  return Vec4Buffer(k_pages).v[i / 4];
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  uint r = gl_WorkGroupID.y;
  Row row = RowBuffer(rows).v[r];
  if (row.sequence < 0) return;
  uint head = U32Buffer(heads).v[gl_WorkGroupID.x];
  uint kv_head = head / (p.n_heads / p.n_kv_heads);
  uint table_start = uint(row.sequence) * p.pages_per_sequence;
  uint length = min(U32Buffer(lengths).v[row.sequence], p.kv_length);
  uint start = (gl_WorkGroupID.x * p.n_rows + r) * p.kv_length;
  for (uint i = thread; i < kHeadDim; i += gl_WorkGroupSize.x) {
    query[i] = load_float(q, r * p.q_row_stride + head * kHeadDim + i, kQDtype) * p.scale;
  }
  barrier();

  float greatest = kMinusInfinity;
  for (uint t = thread; t < length; t += gl_WorkGroupSize.x) {
    uint page = uint(I32Buffer(page_table).v[table_start + t / p.page_rows]);
    uint key = ((page * p.n_kv_heads + kv_head) * p.page_rows + t % p.page_rows) * kHeadDim;
    float score = 0.0;
    for (uint i = 0; i < kHeadDim; i += 4) {
      score += dot(load_key(key + i),
                   vec4(query[i], query[i + 1], query[i + 2], query[i + 3]));
    }
    F32Buffer(out_).v[start + t] = score;
    greatest = max(greatest, score);
  }
  greatest = workgroup_max(greatest);
  float sum = 0.0;
  for (uint t = thread; t < length; t += gl_WorkGroupSize.x) {
    float weight = exp(F32Buffer(out_).v[start + t] - greatest);
    F32Buffer(out_).v[start + t] = weight;
    sum += weight;
  }
  float inverse = 1.0 / workgroup_sum(sum);
  for (uint t = thread; t < length; t += gl_WorkGroupSize.x) {
    F32Buffer(out_).v[start + t] *= inverse;
  }
}

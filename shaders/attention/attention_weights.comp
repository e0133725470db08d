// attention_weights: one workgroup per selected head and row. A thread writes the scores of every
// gl_WorkGroupSize-th position to the output, then replaces them with probabilities.
// Grid: (selected heads, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kv_pages.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHeadDim = 64;
layout(constant_id = 2) const uint kQDtype = 0;
layout(constant_id = 3) const uint kKeyDtype = 0;

layout(push_constant) uniform Push {
  Address out_, q, k_pages, rows, page_table, heads, lengths;
  AttentionWeightsParams p;
};

shared float query[kHeadDim];

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
    uint page_head = page * p.n_kv_heads + kv_head;
    float score = 0.0;
    for (uint i = 0; i < kHeadDim; i += 8) {
      vec4 low, high;
      kv8_values(load_kv8(k_pages, kKeyDtype, page_head, t % p.page_rows, p.page_rows, kHeadDim, i),
                 kKeyDtype, i, low, high);
      score += dot(low, vec4(query[i], query[i + 1], query[i + 2], query[i + 3]));
      score += dot(high, vec4(query[i + 4], query[i + 5], query[i + 6], query[i + 7]));
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

// paged_attention: one workgroup a row and head. Positions are taken kChunk at a time: their scores
// go to shared memory, are turned to weights (online softmax), and the values are summed by groups
// of kLanes threads, eight dimensions a thread, each group over its own positions.
// Grid: (heads, rows). kLanes = head_dim / 8.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "buffers.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kThreads = 64;
layout(constant_id = 2) const uint kHeadDim = 64;
layout(constant_id = 3) const uint kQDtype = 0;
layout(constant_id = 4) const uint kKvDtype = 0;
layout(constant_id = 5) const uint kOutDtype = 0;
layout(constant_id = 6) const uint kKeyLanes = 1;  // threads that share one score
layout(constant_id = 7) const uint kChunk = 1536;

layout(push_constant) uniform Push {
  Address out_, q, k_pages, v_pages, rows, page_table;
  PagedAttentionParams p;
};

const uint kLanes = kHeadDim / 8;
const uint kGroups = kThreads / kLanes;  // of the sum over values
const uint kKeyGroups = kThreads / kKeyLanes;
const uint kKeyPart = kHeadDim / kKeyLanes;  // dimensions a thread has of a score
shared float scores[kChunk];
shared float group_sums[kGroups * kHeadDim];

// Where position t of the sequence lies, in elements; both k and v.
uint position_start(uint table_start, uint head, uint t) {
  uint page = uint(I32Buffer(page_table).v[table_start + t / p.page_rows]);
  return ((page * p.n_kv_heads + head) * p.page_rows + t % p.page_rows) * kHeadDim;
}

// Eight elements from i, a multiple of 8.
void load8(Address address, uint i, out vec4 low, out vec4 high) {
  if (kKvDtype == kDTypeF16) {
    uvec4 bits = UVec4Buffer(address).v[i / 8];
    low = unpack_half4(bits.xy);
    high = unpack_half4(bits.zw);
  } else {
    low = Vec4Buffer(address).v[i / 4];
    high = Vec4Buffer(address).v[i / 4 + 1];
  }
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  uint head = gl_WorkGroupID.x;
  uint r = gl_WorkGroupID.y;
  Row row = RowBuffer(rows).v[r];
  if (row.sequence < 0) return;
  uint kv_head = head / (p.n_heads / p.n_kv_heads);
  uint table_start = uint(row.sequence) * p.pages_per_sequence;
  uint length = p.kv_length == 0 ? uint(row.position) + 1 : p.kv_length;

  vec4 query[kKeyPart / 4];
  uint key_lane = thread % kKeyLanes;
  for (uint i = 0; i < kKeyPart / 4; ++i) {
    uint from = r * p.q_row_stride + head * kHeadDim + key_lane * kKeyPart + i * 4;
    for (uint j = 0; j < 4; ++j) query[i][j] = load_float(q, from + j, kQDtype) * p.scale;
  }

  uint group = thread / kLanes;
  uint lane = thread % kLanes;
  vec4 low_sum = vec4(0.0), high_sum = vec4(0.0);
  float greatest = kMinusInfinity, total = 0.0;
  for (uint first = 0; first < length; first += kChunk) {
    uint count = min(kChunk, length - first);
    float chunk_greatest = kMinusInfinity;
    uint rounds = (count + kKeyGroups - 1) / kKeyGroups;
    for (uint i = 0; i < rounds; ++i) {
      uint t = i * kKeyGroups + thread / kKeyLanes;
      uint start = position_start(table_start, kv_head, first + min(t, count - 1)) + key_lane * kKeyPart;
      float score = 0.0;
      for (uint j = 0; j < kKeyPart / 8; ++j) {
        vec4 low, high;
        load8(k_pages, start + j * 8, low, high);
        score += dot(low, query[j * 2]) + dot(high, query[j * 2 + 1]);
      }
      for (uint step = kKeyLanes / 2; step > 0; step /= 2) score += subgroupShuffleXor(score, step);
      if (t < count) {
        scores[t] = score;
        chunk_greatest = max(chunk_greatest, score);
      }
    }
    float new_greatest = max(greatest, workgroup_max(chunk_greatest));
    float sum = 0.0;
    for (uint t = thread; t < count; t += kThreads) {
      float weight = exp(scores[t] - new_greatest);
      scores[t] = weight;
      sum += weight;
    }
    float correction = exp(greatest - new_greatest);  // 0 at the first chunk
    total = total * correction + workgroup_sum(sum);
    low_sum *= correction;
    high_sum *= correction;
    greatest = new_greatest;
    if (group < kGroups) {
      for (uint t = group; t < count; t += kGroups) {
        vec4 low, high;
        load8(v_pages, position_start(table_start, kv_head, first + t) + lane * 8, low, high);
        low_sum += scores[t] * low;
        high_sum += scores[t] * high;
      }
    }
    barrier();
  }
  if (group < kGroups) {
    for (uint j = 0; j < 4; ++j) {
      group_sums[group * kHeadDim + lane * 8 + j] = low_sum[j];
      group_sums[group * kHeadDim + lane * 8 + 4 + j] = high_sum[j];
    }
  }
  barrier();
  for (uint d = thread; d < kHeadDim; d += kThreads) {
    float sum = 0.0;
    for (uint g = 0; g < kGroups; ++g) sum += group_sums[g * kHeadDim + d];
    store_float(out_, r * p.out_row_stride + head * kHeadDim + d, kOutDtype, sum / total);
  }
}

// paged_attention: one workgroup per row and head. It takes kChunk positions at a time: scores go
// to shared memory and become probabilities (online softmax). Groups of kLanes threads sum the
// values, eight dimensions per thread, each group over its own positions.
//
// Up to kSplits workgroups share the positions of a row and head, at least kSplitPositions each.
// The last one to finish adds the results of all in `partials`, in their order.
// Grid: (heads, rows, kSplits). kLanes = head_dim / 8.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "buffers.glsl"
#include "int8_rows.glsl"
#include "kv_pages.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kThreads = 64;
layout(constant_id = 2) const uint kHeadDim = 64;
layout(constant_id = 3) const uint kQDtype = 0;
layout(constant_id = 4) const uint kKeyDtype = 0;
layout(constant_id = 5) const uint kOutDtype = 0;
layout(constant_id = 6) const uint kKeyLanes = 1;  // threads that share one score
layout(constant_id = 7) const uint kChunk = 1536;
layout(constant_id = 8) const uint kOnePage = 0;  // a sequence has one page: the page table is read
                                                  // once
layout(constant_id = 9) const uint kAhead = 1;    // positions whose loads are in flight
layout(constant_id = 10) const uint kSplits = 1;
layout(constant_id = 11) const uint kPageRows = 32;
layout(constant_id = 12) const uint kValueDtype = 0;
layout(constant_id = 13) const uint kHasSinks = 0;

// Also written by other workgroups of the dispatch.
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Partials { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counters { uint v[]; };

layout(push_constant) uniform Push {
  Address out_, q, k_pages, v_pages, rows, page_table, sinks;
  PagedAttentionValues p;
  Partials partials;  // sum, greatest score, total
  Counters counters;  // [n_rows, n_heads], zero between dispatches
};

const uint kSplitPositions = 128;
const uint kPartial = kHeadDim + 2;

const uint kLanes = kHeadDim / 8;
const uint kGroups = kThreads / kLanes;  // of the sum over values
const uint kKeyGroups = kThreads / kKeyLanes;
const uint kKeyPart = kHeadDim / kKeyLanes;  // dimensions of a score per thread
shared float scores[kChunk];
shared float group_sums[kGroups * kHeadDim];
shared uint n_before;  // workgroups of this row and head that finished before

// The head's part of a page with position t of the sequence, and its row there.
uvec2 page_row(uint table_start, uint only_page, uint kv_head, uint t) {
  uint page = only_page, row = t;
  if (kOnePage == 0) {
    page = uint(I32Buffer(page_table).v[table_start + t / kPageRows]);
    row = t % kPageRows;
  }
  return uvec2(page * p.n_kv_heads + kv_head, row);
}

// Elements d to d + 7 of a row of keys or values. d is a multiple of 8.
void load8(Address pages, uint dtype, uvec2 at, uint d, out vec4 low, out vec4 high) {
  load_kv8(pages, dtype, at.x, at.y, kPageRows, kHeadDim, d, low, high);
}

vec4 subgroup_xor(vec4 x, uint step) {
  return vec4(subgroupShuffleXor(x.x, step), subgroupShuffleXor(x.y, step),
              subgroupShuffleXor(x.z, step), subgroupShuffleXor(x.w, step));
}

// What the head's sink adds to a sum of exponentials relative to `greatest`.
float sink_weight(uint head, float greatest) {
  return kHasSinks != 0 ? exp(min(F32Buffer(sinks).v[head] - greatest, kMostExponent)) : 0.0;
}

// Stores element d of the head's result. Rows of int8 are collected in group_sums.
void store_result(uint r, uint head, uint d, float value) {
  if (kOutDtype == kDTypeI8) {
    group_sums[d] = value;
  } else {
    store_float(out_, r * p.out_row_stride + head * kHeadDim + d, kOutDtype, value);
  }
}

// Stores the collected result.
void store_int8_result(uint r, uint head) {
  if (kOutDtype != kDTypeI8) return;
  barrier();
  for (uint d = gl_LocalInvocationID.x * 4; d < kHeadDim; d += kThreads * 4) {
    vec4 x = vec4(group_sums[d], group_sums[d + 1], group_sums[d + 2], group_sums[d + 3]);
    store_int8(out_, p.n_rows * p.out_row_stride, r * p.out_row_stride + head * kHeadDim + d, x);
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
  uint only_page = kOnePage != 0 ? uint(I32Buffer(page_table).v[table_start]) : 0;
  uint length = p.kv_length == 0 ? uint(row.position) + 1 : p.kv_length;
  uint begin = p.window != 0 && p.window < length ? length - p.window : 0;
  uint n_parts = 1;
  if (kSplits > 1) {
    uint n = length - begin;
    n_parts = clamp(n / kSplitPositions, 1, kSplits);
    uint part = gl_WorkGroupID.z, in_part = (n + n_parts - 1) / n_parts;
    if (part >= n_parts) return;
    begin += part * in_part;
    length = min(length, begin + in_part);
  }

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
  for (uint first = begin; first < length; first += kChunk) {
    uint count = min(kChunk, length - first);
    float chunk_greatest = kMinusInfinity;
    for (uint base = thread / kKeyLanes; base - thread / kKeyLanes < count;
         base += kKeyGroups * kAhead) {
      vec4 keys[kAhead * (kKeyPart / 4)];
      [[unroll]] for (uint i = 0; i < kAhead; ++i) {
        uint t = first + min(base + i * kKeyGroups, count - 1);
        uvec2 key = page_row(table_start, only_page, kv_head, t);
        [[unroll]] for (uint j = 0; j < kKeyPart / 8; ++j) {
          uint at = i * (kKeyPart / 4) + j * 2;
          load8(k_pages, kKeyDtype, key, key_lane * kKeyPart + j * 8, keys[at], keys[at + 1]);
        }
      }
      [[unroll]] for (uint i = 0; i < kAhead; ++i) {
        float score = 0.0;
        [[unroll]] for (uint j = 0; j < kKeyPart / 4; ++j) {
          score += dot(keys[i * (kKeyPart / 4) + j], query[j]);
        }
        for (uint step = kKeyLanes / 2; step > 0; step /= 2) score += subgroupShuffleXor(score, step);
        // tanh is exactly 1 beyond 10. Drivers may compute it from exponentials that overflow.
        if (p.soft_cap != 0.0) score = p.soft_cap * tanh(clamp(score / p.soft_cap, -10.0, 10.0));
        uint t = base + i * kKeyGroups;
        if (t < count) {
          scores[t] = score;
          chunk_greatest = max(chunk_greatest, score);
        }
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
      for (uint base = group; base < count; base += kGroups * kAhead) {
        vec4 low[kAhead], high[kAhead];
        [[unroll]] for (uint i = 0; i < kAhead; ++i) {
          uint t = first + min(base + i * kGroups, count - 1);
          load8(v_pages, kValueDtype, page_row(table_start, only_page, kv_head, t), lane * 8,
                low[i], high[i]);
        }
        [[unroll]] for (uint i = 0; i < kAhead; ++i) {
          uint t = base + i * kGroups;
          float weight = t < count ? scores[t] : 0.0;
          low_sum += weight * low[i];
          high_sum += weight * high[i];
        }
      }
    }
    barrier();
  }
  // If threads share scores, kLanes divides the subgroup: shuffles add the groups of a subgroup.
  uint n_sums = kGroups, sum_slot = group;
  if (kKeyLanes > 1) {
    for (uint step = gl_SubgroupSize / 2; step >= kLanes; step /= 2) {
      low_sum += subgroup_xor(low_sum, step);
      high_sum += subgroup_xor(high_sum, step);
    }
    n_sums = gl_NumSubgroups;
    sum_slot = gl_SubgroupInvocationID < kLanes ? gl_SubgroupID : n_sums;
  }
  if (sum_slot < n_sums) {
    [[unroll]] for (uint j = 0; j < 4; ++j) {
      group_sums[sum_slot * kHeadDim + lane * 8 + j] = low_sum[j];
      group_sums[sum_slot * kHeadDim + lane * 8 + 4 + j] = high_sum[j];
    }
  }
  barrier();
  if (n_parts == 1) total += sink_weight(head, greatest);
  uint at = r * p.n_heads + head;
  for (uint d = thread; d < kHeadDim; d += kThreads) {
    float sum = 0.0;
    for (uint g = 0; g < n_sums; ++g) sum += group_sums[g * kHeadDim + d];
    if (n_parts == 1) {
      store_result(r, head, d, sum / total);
    } else {
      partials.v[(at * kSplits + gl_WorkGroupID.z) * kPartial + d] = sum;
    }
  }
  if (n_parts == 1) {
    store_int8_result(r, head);
    return;
  }
  if (thread == 0) {
    uint end = (at * kSplits + gl_WorkGroupID.z + 1) * kPartial;
    partials.v[end - 2] = greatest;
    partials.v[end - 1] = total;
  }
  memoryBarrierBuffer();
  barrier();
  if (thread == 0) n_before = atomicAdd(counters.v[at], 1u);
  barrier();
  if (n_before + 1 != n_parts) return;
  memoryBarrierBuffer();
  if (thread == 0) counters.v[at] = 0;
  float of_all = kMinusInfinity;
  for (uint i = 0; i < n_parts; ++i) {
    of_all = max(of_all, partials.v[(at * kSplits + i + 1) * kPartial - 2]);
  }
  for (uint d = thread; d < kHeadDim; d += kThreads) {
    float sum = 0.0;
    total = sink_weight(head, of_all);
    for (uint i = 0; i < n_parts; ++i) {
      uint part = (at * kSplits + i) * kPartial;
      float weight = exp(partials.v[part + kHeadDim] - of_all);
      sum += weight * partials.v[part + d];
      total += weight * partials.v[part + kHeadDim + 1];
    }
    store_result(r, head, d, sum / total);
  }
  store_int8_result(r, head);
}

// paged_attention: one workgroup per row and kHeads heads that share their keys and values, which are
// loaded once for all of them. Where kHeads does not divide the number of heads that share, some
// heads are computed by two workgroups, with the same result.
//
// A subgroup takes kAhead * kRowsAtOnce successive positions at a time. kLanes lanes share a row: each
// has every kLanes-th group of eight dimensions. Each such group of lanes has an online softmax of its
// own over its positions ("Online normalizer calculation for softmax", Milakov and Gimelshein, 2018),
// so it waits for other lanes only at the end. Exponents are to base 2.
//
// Up to kSplits workgroups share the positions. While a text is short, fewer do: each has at least
// kSplitPositions. The last one to finish adds the results of all in `partials`, in their order.
//
// With kAttentionWritesKv, every subgroup norms and rotates its queries. In the first workgroup, the
// last subgroup has the new position, and the others those in the pages, so that none waits for a new
// key. Keys and values of the new position are rounded in the pages only.
// Grid: (workgroups for all heads, rows, kSplits).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require
#include "stage_order.glsl"
#include "int8_rows.glsl"
#include "kv_pages.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHeadDim = 64;
layout(constant_id = 2) const uint kDtypes = 0;  // of q, and of out from bit 4
layout(constant_id = 3) const uint kKeyDtype = 0;
layout(constant_id = 4) const uint kValueDtype = 0;
layout(constant_id = 5) const uint kPageRows = 32;
layout(constant_id = 6) const uint kOnePage = 0;  // a sequence has one page: the page table is read
                                                  // once
layout(constant_id = 7) const uint kSubgroup = 32;
layout(constant_id = 8) const uint kLanes = 8;  // a power of two up to kSubgroup
layout(constant_id = 9) const uint kAhead = 1;  // rows that a lane loads at once
layout(constant_id = 10) const uint kSplits = 1;
layout(constant_id = 11) const uint kHeads = 1;
layout(constant_id = 12) const float kSoftCap = 0.0;
layout(constant_id = 13) const float kScale = 1.0;
layout(constant_id = 14) const uint kFlags = 0;  // 1: kAttentionWritesKv; present are 2: angles, 4: norm
                                                 // of q, 8: norm of k; 16: pairs are interleaved; 32:
                                                 // sinks are present
layout(constant_id = 15) const uint kPairs = 0;
layout(constant_id = 16) const float kNormEpsilon = 0.0;
layout(constant_id = 17) const uint kQueryHeads = 1;
layout(constant_id = 18) const uint kKvHeads = 1;

// Also written by other workgroups of the dispatch.
layout(buffer_reference, std430, buffer_reference_align = 4) EXCHANGED buffer Partials { float v[]; };

layout(push_constant) uniform Push {
  Address out_, q, k_pages, v_pages, rows, page_table, sinks, angles, q_norm, k_norm;
  PagedAttentionValues p;
  Partials partials;  // sum, greatest score, total
  Counters counters;  // [n_rows, gl_NumWorkGroups.x], zero between dispatches
  StageCounters stages;
};

const float kLeast = -1e30;  // below every score, but finite
const uint kSplitPositions = 256;
const uint kPartial = kHeadDim + 2;

const uint kQDtype = kDtypes & 15u, kOutDtype = kDtypes >> 4;
const uint kThreads = gl_WorkGroupSize.x;
const uint kSubgroups = kThreads / kSubgroup;
const bool kWritesKv = (kFlags & 1u) != 0, kRotates = (kFlags & 2u) != 0;
const bool kInterleaved = (kFlags & 16u) != 0, kHasSinks = (kFlags & 32u) != 0;
const uint kChunks = kHeadDim / 8;
const uint kLaneChunks = (kChunks + kLanes - 1) / kLanes;
const uint kRowsAtOnce = kSubgroup / kLanes;
const uint kUnit = kAhead * kRowsAtOnce;  // positions, within a page
shared float sums[kSubgroups * kHeads * kHeadDim];  // of subgroups, then results
shared float greatest_of[kSubgroups * kHeads], total_of[kSubgroups * kHeads];
shared uint n_before;  // workgroups of this row and these heads that finished before

vec4 subgroup_xor(vec4 x, uint step) {
  return vec4(subgroupShuffleXor(x.x, step), subgroupShuffleXor(x.y, step),
              subgroupShuffleXor(x.z, step), subgroupShuffleXor(x.w, step));
}

// What the head's sink adds to a sum of exponentials relative to `greatest`.
float sink_weight(uint head, float greatest) {
  return kHasSinks ? exp2(min(F32Buffer(sinks).v[head] * kLog2E - greatest, kMostExponent)) : 0.0;
}

// Stores element `at` of the results that a workgroup has together, from `first_head` on. Rows of int8
// are collected in `sums`.
void store_result(uint r, uint first_head, uint at, float value) {
  if (kOutDtype == kDTypeI8) {
    sums[at] = value;
  } else {
    store_float(out_, r * p.out_row_stride + first_head * kHeadDim + at, kOutDtype, value);
  }
}

// Stores the collected elements.
void store_int8_results(uint r, uint first_head) {
  if (kOutDtype != kDTypeI8) return;
  barrier();
  for (uint at = gl_LocalInvocationID.x * 4; at < kHeads * kHeadDim; at += kThreads * 4) {
    vec4 x = vec4(sums[at], sums[at + 1], sums[at + 2], sums[at + 3]);
    store_int8(out_, p.n_rows * p.out_row_stride,
               r * p.out_row_stride + first_head * kHeadDim + at, x);
  }
}

// Adds the results of n_parts workgroups.
void store_sum_of_parts(uint r, uint first_head, uint n_parts) {
  for (uint at = gl_LocalInvocationID.x; at < kHeads * kHeadDim; at += kThreads) {
    uint head = first_head + at / kHeadDim;
    // All loads are in flight at once.
    float parts[kSplits], greatest_of_part[kSplits], total_of_part[kSplits];
    [[unroll]] for (uint i = 0; i < kSplits; ++i) {
      uint part = ((r * kQueryHeads + head) * kSplits + min(i, n_parts - 1)) * kPartial;
      parts[i] = partials.v[part + at % kHeadDim];
      greatest_of_part[i] = partials.v[part + kHeadDim];
      total_of_part[i] = partials.v[part + kHeadDim + 1];
    }
    float of_all = kLeast;
    [[unroll]] for (uint i = 0; i < kSplits; ++i) of_all = max(of_all, greatest_of_part[i]);
    float sum = 0.0, total = sink_weight(head, of_all);
    [[unroll]] for (uint i = 0; i < kSplits; ++i) {
      float weight = i < n_parts ? exp2(greatest_of_part[i] - of_all) : 0.0;
      sum += weight * parts[i];
      total += weight * total_of_part[i];
    }
    store_result(r, first_head, at, sum / total);
  }
  store_int8_results(r, first_head);
}

float capped(float score) {
  // tanh is exactly 1 beyond 10. Drivers may compute it from exponentials that overflow.
  return kSoftCap != 0.0 ? kSoftCap * kLog2E * tanh(clamp(score / kSoftCap, -10.0, 10.0)) : score;
}

// First dimensions of the lane's groups of eight. Lanes beyond the last group repeat it, with queries of
// 0, and do not have it.
uint lane_dims[kLaneChunks];
bool lane_has[kLaneChunks];
vec4 head[kLaneChunks * 2];  // the lane's dimensions of a head

// Loads the head that begins at element `from` of q.
void load_head(uint from) {
  [[unroll]] for (uint c = 0; c < kLaneChunks * 2; ++c) {
    head[c] = load_vec4(q, from + lane_dims[c / 2] + c % 2 * 4, kQDtype);
  }
}

// Dimensions from d on are rotated with those from paired(d) on.
uint paired(uint d) {
  if (!kRotates || kInterleaved || d >= 2 * kPairs) return d;
  return d < kPairs ? d + kPairs : d - kPairs;
}

// Loads a head, norms it and rotates it, as kernel rope does.
void prepare_head(uint from, bool has_norm, Address norm, uint position) {
  load_head(from);
  vec4 other[kLaneChunks * 2];
  [[unroll]] for (uint c = 0; c < kLaneChunks * 2; ++c) {
    other[c] = load_vec4(q, from + paired(lane_dims[c / 2]) + c % 2 * 4, kQDtype);
  }
  if (has_norm) {
    float squares = 0.0;
    [[unroll]] for (uint c = 0; c < kLaneChunks * 2; ++c) {
      if (lane_has[c / 2]) squares += dot(head[c], head[c]);
    }
    [[unroll]] for (uint step = 1; step < kLanes; step *= 2) {
      squares += subgroupShuffleXor(squares, step);
    }
    float factor = inversesqrt(squares / float(kHeadDim) + kNormEpsilon);
    [[unroll]] for (uint c = 0; c < kLaneChunks * 2; ++c) {
      head[c] *= factor * Vec4Buffer(norm).v[lane_dims[c / 2] / 4 + c % 2];
      other[c] *= factor * Vec4Buffer(norm).v[paired(lane_dims[c / 2]) / 4 + c % 2];
    }
  }
  if (!kRotates) return;
  [[unroll]] for (uint c = 0; c < kLaneChunks * 2; ++c) {
    uint d = lane_dims[c / 2] + c % 2 * 4;
    if (d >= 2 * kPairs) continue;
    vec4 x = head[c];
    uint first = position * 2 * kPairs;  // of the angles
    if (kInterleaved) {
      vec4 a = Vec4Buffer(angles).v[(first + d) / 4];  // cosine, sine, cosine, sine
      head[c] = vec4(x.x * a.x - x.y * a.y, x.x * a.y + x.y * a.x, x.z * a.z - x.w * a.w,
                     x.z * a.w + x.w * a.z);
    } else {
      uint at = (first + 2 * (d < kPairs ? d : d - kPairs)) / 4;
      vec4 a = Vec4Buffer(angles).v[at], b = Vec4Buffer(angles).v[at + 1];
      vec4 cosines = vec4(a.x, a.z, b.x, b.z), sines = vec4(a.y, a.w, b.y, b.w);
      head[c] = d < kPairs ? x * cosines - other[c] * sines : other[c] * sines + x * cosines;
    }
  }
}

// Stores the head as row `row` of a head's part of a page.
void store_head(Address pages, uint dtype, uint page_head, uint row) {
  [[unroll]] for (uint c = 0; c < kLaneChunks; ++c) {
    if (!lane_has[c]) continue;
    store_kv8(pages, dtype, page_head, row, kPageRows, kHeadDim, lane_dims[c], head[2 * c],
              head[2 * c + 1]);
  }
}

Kv8 keys[kAhead * kLaneChunks], values[kAhead * kLaneChunks];  // the lane's, of a unit

// Loads the lane's keys and values of a unit, within positions `begin` to `length`.
void load_unit(uint unit, uint kv_head, uint only_page, uint table_start, uint begin, uint length) {
  uint first = unit * kUnit, page = only_page, page_start = 0;
  if (kOnePage == 0) {
    page = uint(I32Buffer(page_table).v[table_start + first / kPageRows]);
    page_start = first / kPageRows * kPageRows;
  }
  uint page_head = page * kKvHeads + kv_head;
  first += gl_SubgroupInvocationID / kLanes;
  [[unroll]] for (uint i = 0; i < kAhead; ++i) {
    uint t = clamp(first + i * kRowsAtOnce, begin, length - 1) - page_start;
    [[unroll]] for (uint c = 0; c < kLaneChunks; ++c) {
      keys[i * kLaneChunks + c] =
          load_kv8(k_pages, kKeyDtype, page_head, t, kPageRows, kHeadDim, lane_dims[c]);
    }
  }
  [[unroll]] for (uint i = 0; i < kAhead; ++i) {
    uint t = clamp(first + i * kRowsAtOnce, begin, length - 1) - page_start;
    [[unroll]] for (uint c = 0; c < kLaneChunks; ++c) {
      values[i * kLaneChunks + c] =
          load_kv8(v_pages, kValueDtype, page_head, t, kPageRows, kHeadDim, lane_dims[c]);
    }
  }
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  uint sharing = kQueryHeads / kKvHeads, blocks = (sharing + kHeads - 1) / kHeads;
  uint kv_head = gl_WorkGroupID.x / blocks;
  uint first_head = kv_head * sharing + min(gl_WorkGroupID.x % blocks * kHeads, sharing - kHeads);
  uint r = gl_WorkGroupID.y;
  Row row = RowBuffer(rows).v[r];
  bool is_first = gl_WorkGroupID.xy == uvec2(0);  // of those that count for others
  if (row.sequence < 0) {
    wait_for_stage(stages);
    count_workgroups(stages, 1, is_first && gl_WorkGroupID.z == 0);
    return;
  }
  uint table_start = uint(row.sequence) * p.pages_per_sequence;
  uint only_page = kOnePage != 0 ? uint(I32Buffer(page_table).v[table_start]) : 0;
  uint length = p.kv_length == 0 ? uint(row.position) + 1 : p.kv_length;
  uint begin = p.window != 0 && p.window < length ? length - p.window : 0;
  if (kWritesKv) --length;  // the new position is not in the pages yet
  uint first_unit = begin / kUnit, end_unit = (length + kUnit - 1) / kUnit;
  uint n_parts = 1;
  if (kSplits > 1) {
    uint n = max(end_unit - first_unit, 1);
    n_parts = p.kv_length != 0 ? kSplits : clamp((length - begin) / kSplitPositions, 1, kSplits);
    uint in_part = (n + n_parts - 1) / n_parts;
    // Fewer, if the last ones would be empty.
    n_parts = (n + in_part - 1) / in_part;
    if (gl_WorkGroupID.z >= n_parts) {
      count_workgroups(stages, 1, false);  // the others wait
      return;
    }
    first_unit += gl_WorkGroupID.z * in_part;
    end_unit = min(end_unit, first_unit + in_part);
  }

  uint row_of_lane = gl_SubgroupInvocationID / kLanes, lane = gl_SubgroupInvocationID % kLanes;
  [[unroll]] for (uint c = 0; c < kLaneChunks; ++c) {
    uint chunk = c * kLanes + lane;
    lane_has[c] = chunk < kChunks;
    lane_dims[c] = min(chunk, kChunks - 1) * 8;
  }
  // Subgroups that read pages.
  uint n_readers = kWritesKv && gl_WorkGroupID.z == 0 ? kSubgroups - 1 : kSubgroups;
  bool has_new = gl_SubgroupID == n_readers;
  uint unit = first_unit + gl_SubgroupID;
  if (has_new) end_unit = 0;
  if (unit < end_unit) load_unit(unit, kv_head, only_page, table_start, begin, length);
  wait_for_stage(stages);
  vec4 query[kHeads * kLaneChunks * 2];
  [[unroll]] for (uint h = 0; h < kHeads; ++h) {
    uint from = r * p.q_row_stride + (first_head + h) * kHeadDim;
    if (kWritesKv) {
      prepare_head(from, (kFlags & 4u) != 0, q_norm, uint(row.position));
    } else {
      load_head(from);
    }
    [[unroll]] for (uint c = 0; c < kLaneChunks * 2; ++c) {
      float scale = lane_has[c / 2] ? kScale * (kSoftCap != 0.0 ? 1.0 : kLog2E) : 0.0;
      query[h * kLaneChunks * 2 + c] = head[c] * scale;
    }
  }

  vec4 sum[kHeads * kLaneChunks * 2];
  float greatest[kHeads], total[kHeads];
  [[unroll]] for (uint h = 0; h < kHeads; ++h) {
    [[unroll]] for (uint c = 0; c < kLaneChunks * 2; ++c) sum[h * kLaneChunks * 2 + c] = vec4(0.0);
    greatest[h] = kLeast;
    total[h] = 0.0;
  }
  if (has_new) {
    uint position = uint(row.position), index = position, page = only_page;
    if (kOnePage == 0) {
      page = uint(I32Buffer(page_table).v[table_start + position / kPageRows]);
      index = position % kPageRows;
    }
    uint from = r * p.q_row_stride + (kQueryHeads + kv_head) * kHeadDim;
    uint page_head = page * kKvHeads + kv_head;
    bool stores = gl_WorkGroupID.x % blocks == 0 && row_of_lane == 0;
    prepare_head(from, (kFlags & 8u) != 0, k_norm, position);
    if (stores) store_head(k_pages, kKeyDtype, page_head, index);
    [[unroll]] for (uint h = 0; h < kHeads; ++h) {
      float score = 0.0;
      [[unroll]] for (uint c = 0; c < kLaneChunks * 2; ++c) {
        score += dot(head[c], query[h * kLaneChunks * 2 + c]);
      }
      [[unroll]] for (uint step = kLanes / 2; step > 0; step /= 2) {
        score += subgroupShuffleXor(score, step);
      }
      if (row_of_lane == 0) greatest[h] = capped(score);
    }
    load_head(from + kKvHeads * kHeadDim);
    if (stores) store_head(v_pages, kValueDtype, page_head, index);
    if (row_of_lane == 0) {
      [[unroll]] for (uint h = 0; h < kHeads; ++h) {
        total[h] = 1.0;
        [[unroll]] for (uint c = 0; c < kLaneChunks * 2; ++c) {
          sum[h * kLaneChunks * 2 + c] = head[c];
        }
      }
    }
  }
  for (; unit < end_unit; unit += n_readers) {
    uint first = unit * kUnit;
    float scores[kAhead * kHeads];
    [[unroll]] for (uint i = 0; i < kAhead; ++i) {
      uint t = first + i * kRowsAtOnce + row_of_lane;
      vec4 key[kLaneChunks * 2];
      [[unroll]] for (uint c = 0; c < kLaneChunks; ++c) {
        kv8_values(keys[i * kLaneChunks + c], kKeyDtype, lane_dims[c], key[2 * c], key[2 * c + 1]);
      }
      [[unroll]] for (uint h = 0; h < kHeads; ++h) {
        float score = 0.0;
        [[unroll]] for (uint c = 0; c < kLaneChunks * 2; ++c) {
          score += dot(key[c], query[h * kLaneChunks * 2 + c]);
        }
        [[unroll]] for (uint step = kLanes / 2; step > 0; step /= 2) {
          score += subgroupShuffleXor(score, step);
        }
        scores[i * kHeads + h] = t >= begin && t < length ? capped(score) : kMinusInfinity;
      }
    }
    [[unroll]] for (uint h = 0; h < kHeads; ++h) {
      float before = greatest[h];
      [[unroll]] for (uint i = 0; i < kAhead; ++i) {
        greatest[h] = max(greatest[h], scores[i * kHeads + h]);
      }
      float correction = exp2(before - greatest[h]);
      total[h] *= correction;
      [[unroll]] for (uint c = 0; c < kLaneChunks * 2; ++c) {
        sum[h * kLaneChunks * 2 + c] *= correction;
      }
      [[unroll]] for (uint i = 0; i < kAhead; ++i) {
        scores[i * kHeads + h] = exp2(scores[i * kHeads + h] - greatest[h]);
        total[h] += scores[i * kHeads + h];
      }
    }
    [[unroll]] for (uint i = 0; i < kAhead; ++i) {
      [[unroll]] for (uint c = 0; c < kLaneChunks; ++c) {
        vec4 low, high;
        kv8_values(values[i * kLaneChunks + c], kValueDtype, lane_dims[c], low, high);
        [[unroll]] for (uint h = 0; h < kHeads; ++h) {
          sum[(h * kLaneChunks + c) * 2] += scores[i * kHeads + h] * low;
          sum[(h * kLaneChunks + c) * 2 + 1] += scores[i * kHeads + h] * high;
        }
      }
    }
    if (unit + n_readers < end_unit) {
      load_unit(unit + n_readers, kv_head, only_page, table_start, begin, length);
    }
  }

  [[unroll]] for (uint h = 0; h < kHeads; ++h) {
    float of_subgroup = subgroupMax(greatest[h]);
    float correction = exp2(greatest[h] - of_subgroup);
    total[h] *= correction;
    [[unroll]] for (uint step = kLanes; step < kSubgroup; step *= 2) {
      total[h] += subgroupShuffleXor(total[h], step);
    }
    [[unroll]] for (uint c = 0; c < kLaneChunks * 2; ++c) {
      vec4 x = sum[h * kLaneChunks * 2 + c] * correction;
      [[unroll]] for (uint step = kLanes; step < kSubgroup; step *= 2) x += subgroup_xor(x, step);
      uint d = (c / 2 * kLanes + lane) * 8 + c % 2 * 4;
      if (row_of_lane == 0 && d < kHeadDim) {
        uint at = (gl_SubgroupID * kHeads + h) * kHeadDim + d;
        [[unroll]] for (uint j = 0; j < 4; ++j) sums[at + j] = x[j];
      }
    }
    if (gl_SubgroupInvocationID == 0) {
      greatest_of[gl_SubgroupID * kHeads + h] = of_subgroup;
      total_of[gl_SubgroupID * kHeads + h] = total[h];
    }
  }
  barrier();
  uint first_part = (r * kQueryHeads + first_head) * kSplits + gl_WorkGroupID.z;
  for (uint at = thread; at < kHeads * kHeadDim; at += kThreads) {
    uint h = at / kHeadDim;
    float of_all = kLeast, sum_of_all = 0.0, total_of_all = 0.0;
    for (uint i = 0; i < kSubgroups; ++i) of_all = max(of_all, greatest_of[i * kHeads + h]);
    for (uint i = 0; i < kSubgroups; ++i) {
      float weight = exp2(greatest_of[i * kHeads + h] - of_all);
      sum_of_all += weight * sums[i * kHeads * kHeadDim + at];
      total_of_all += weight * total_of[i * kHeads + h];
    }
    if (n_parts == 1) {
      store_result(r, first_head, at, sum_of_all / (total_of_all + sink_weight(first_head + h, of_all)));
    } else {
      uint part = (first_part + h * kSplits) * kPartial;
      partials.v[part + at % kHeadDim] = sum_of_all;
      if (at % kHeadDim == 0) {
        partials.v[part + kHeadDim] = of_all;
        partials.v[part + kHeadDim + 1] = total_of_all;
      }
    }
  }
  if (n_parts == 1) {
    store_int8_results(r, first_head);
  } else {
    release_stores();
    uint counter = r * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (thread == 0) n_before = atomicAdd(counters.v[counter], 1u);
    barrier();
    if (n_before + 1 != n_parts) return;
    acquire_stores();
    if (thread == 0) counters.v[counter] = 0;
    store_sum_of_parts(r, first_head, n_parts);
  }
  count_workgroups(stages, n_parts, is_first);
}

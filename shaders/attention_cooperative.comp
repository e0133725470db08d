// attention on the matrix units: flash attention over f16 queries, keys and values, sums in f32.
//
// A workgroup of kSubgroups subgroups takes kRows rows of one head of one sequence, each subgroup
// kDown * kSide of them; keys and values pass through shared memory kKeys at a time. Scores go
// through the subgroup's own piece of shared memory, where each row is exponentiated; the weights
// come back as a matrix. A row's exponents are relative to a reference that follows its maximum
// only when that has risen by more than kSlack, so that the sums are rarely rescaled.
// Grid: (blocks of rows, heads, sequences); of packed sequences (blocks, heads, 1).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "buffers.glsl"
#include "attention_rows.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHeadDim = 64;
layout(constant_id = 2) const uint kSubgroups = 4;
layout(constant_id = 3) const uint kDown = 2;
layout(constant_id = 4) const uint kSide = 16;
layout(constant_id = 5) const uint kInner = 16;
layout(constant_id = 6) const uint kOutDtype = 0;
layout(constant_id = 7) const uint kLanesPerRow = 2;  // subgroup size / kSide
layout(constant_id = 8) const uint kKeys = 64;  // at least kRows / 2: the queries pass through their place
layout(constant_id = 9) const uint kPacked = 0;
layout(constant_id = 10) const uint kMasked = 0;  // rows do not see all rows

layout(push_constant) uniform Push {
  Address out_, q, k, v, starts;
  AttentionParams p;
};

const float kSlack = 8.0;  // of exponents to base 2: weights stay below 2^8, far within f16
const uint kRows = kSubgroups * kDown * kSide;
const uint kThreads = gl_WorkGroupSize.x;
const uint kChunks = kHeadDim / 8;           // of 16 bytes in a row
const uint kPitch = kChunks + 1;             // in those
const uint kScorePitch = kKeys + 8;          // f32
const uint kWeightPitch = kKeys / 8 + 1;     // 16 bytes
const uint kKeySteps = kKeys / kSide;
const uint kDimSteps = kHeadDim / kSide;
const uint kLaneKeys = kKeys / kLanesPerRow;
const uint kLoads = kKeys * kChunks / kThreads;  // of keys, and of values, a thread

shared uvec4 kv_tile[2 * kKeys * kPitch];
shared float scores[kSubgroups * kSide * kScorePitch];
shared uvec4 weights[kSubgroups * kSide * kWeightPitch];

// Row `thread / kChunks + i * (threads / kChunks)` of the keys or values from `first`.
uvec4 load_chunk(Address address, uint sequence_start, uint n, uint kv_head, uint first, uint stride, uint i) {
  uint at = gl_LocalInvocationID.x + i * kThreads;
  uint row = sequence_start + min(first + at / kChunks, n - 1);
  return UVec4Buffer(address).v[(row * stride + kv_head * kHeadDim) / 8 + at % kChunks];
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  uint lane = gl_SubgroupInvocationID;
  uint first_row = gl_WorkGroupID.x * kRows;
  uint head = gl_WorkGroupID.y;
  uint kv_head = head / (p.n_heads / p.n_kv_heads);
  uint n = p.rows_per_sequence;
  uint sequence_start = gl_WorkGroupID.z * n;
  if (kPacked != 0) {
    AttentionBlock block = packed_block(starts, p.n_sequences, gl_WorkGroupID.x, kRows);
    if (block.n == 0) return;
    sequence_start = block.sequence_start;
    n = block.n;
    first_row = block.first_row;
  }
  // Keys that some row of the block sees.
  uint first_key = 0, end_key = n;
  if (kMasked != 0) {
    first_key = visible_rows(first_row, n, p.causal, p.window).x / kKeys * kKeys;
    end_key = visible_rows(min(first_row + kRows, n) - 1, n, p.causal, p.window).y;
  }

  for (uint i = thread; i < kRows * kChunks; i += kThreads) {
    uint row = sequence_start + min(first_row + i / kChunks, n - 1);
    kv_tile[i / kChunks * kPitch + i % kChunks] =
        UVec4Buffer(q).v[(row * p.q_row_stride + head * kHeadDim) / 8 + i % kChunks];
  }
  barrier();
  coopmat<float16_t, gl_ScopeSubgroup, kSide, kInner, gl_MatrixUseA> query[kDown * (kHeadDim / kInner)];
  [[unroll]] for (uint i = 0; i < kDown; ++i) {
    [[unroll]] for (uint d = 0; d < kHeadDim / kInner; ++d) {
      coopMatLoad(query[i * (kHeadDim / kInner) + d], kv_tile,
                  (gl_SubgroupID * kDown + i) * kSide * kPitch + d * (kInner / 8), kPitch,
                  gl_CooperativeMatrixLayoutRowMajor);
    }
  }
  coopmat<float, gl_ScopeSubgroup, kSide, kSide, gl_MatrixUseAccumulator> sums[kDown * kDimSteps];
  [[unroll]] for (uint i = 0; i < kDown * kDimSteps; ++i) {
    sums[i] = coopmat<float, gl_ScopeSubgroup, kSide, kSide, gl_MatrixUseAccumulator>(0.0);
  }
  // A lane has, of row lane / kLanesPerRow, every kLanesPerRow-th group of four keys.
  uint row = lane / kLanesPerRow, part = lane % kLanesPerRow;
  uint score_start = gl_SubgroupID * kSide * kScorePitch;
  uint weight_start = gl_SubgroupID * kSide * kWeightPitch;
  float to_exponent = p.scale * 1.4426950408889634;  // exp(x) = exp2(x / ln 2)
  float reference[kDown], total[kDown];
  [[unroll]] for (uint i = 0; i < kDown; ++i) {
    // Below every score; a number, because a row may see none of the first keys.
    reference[i] = -1e30;
    total[i] = 0.0;
  }

  uvec4 next_keys[kLoads], next_values[kLoads];
  [[unroll]] for (uint i = 0; i < kLoads; ++i) {
    next_keys[i] = load_chunk(k, sequence_start, n, kv_head, first_key, p.k_row_stride, i);
    next_values[i] = load_chunk(v, sequence_start, n, kv_head, first_key, p.v_row_stride, i);
  }
  for (uint first = first_key; first < end_key; first += kKeys) {
    barrier();
    [[unroll]] for (uint i = 0; i < kLoads; ++i) {
      uint at = thread + i * kThreads;
      kv_tile[at / kChunks * kPitch + at % kChunks] = next_keys[i];
      kv_tile[(kKeys + at / kChunks) * kPitch + at % kChunks] = next_values[i];
    }
    barrier();
    if (first + kKeys < end_key) {
      [[unroll]] for (uint i = 0; i < kLoads; ++i) {
        next_keys[i] = load_chunk(k, sequence_start, n, kv_head, first + kKeys, p.k_row_stride, i);
        next_values[i] = load_chunk(v, sequence_start, n, kv_head, first + kKeys, p.v_row_stride, i);
      }
    }
    coopmat<float, gl_ScopeSubgroup, kSide, kSide, gl_MatrixUseAccumulator> score[kDown * kKeySteps];
    [[unroll]] for (uint t = 0; t < kKeySteps; ++t) {
      [[unroll]] for (uint i = 0; i < kDown; ++i) {
        score[i * kKeySteps + t] =
            coopmat<float, gl_ScopeSubgroup, kSide, kSide, gl_MatrixUseAccumulator>(0.0);
      }
      [[unroll]] for (uint d = 0; d < kHeadDim / kInner; ++d) {
        coopmat<float16_t, gl_ScopeSubgroup, kInner, kSide, gl_MatrixUseB> key;
        coopMatLoad(key, kv_tile, t * kSide * kPitch + d * (kInner / 8), kPitch,
                    gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint i = 0; i < kDown; ++i) {
          score[i * kKeySteps + t] =
              coopMatMulAdd(query[i * (kHeadDim / kInner) + d], key, score[i * kKeySteps + t]);
        }
      }
    }
    [[unroll]] for (uint i = 0; i < kDown; ++i) {
      [[unroll]] for (uint t = 0; t < kKeySteps; ++t) {
        coopMatStore(score[i * kKeySteps + t], scores, score_start + t * kSide, kScorePitch,
                     gl_CooperativeMatrixLayoutRowMajor);
      }
      subgroupMemoryBarrierShared();
      subgroupBarrier();

      float mine[kLaneKeys];
      float greatest = kMinusInfinity;
      uvec2 visible = uvec2(0, n);
      if (kMasked != 0) {
        uint at = first_row + (gl_SubgroupID * kDown + i) * kSide + row;
        visible = visible_rows(min(at, n - 1), n, p.causal, p.window);
      }
      [[unroll]] for (uint g = 0; g < kLaneKeys / 4; ++g) {
        uint column = (g * kLanesPerRow + part) * 4;
        [[unroll]] for (uint e = 0; e < 4; ++e) {
          float score = scores[score_start + row * kScorePitch + column + e] * to_exponent;
          uint key = first + column + e;
          mine[g * 4 + e] = key >= visible.x && key < visible.y ? score : kMinusInfinity;
          greatest = max(greatest, mine[g * 4 + e]);
        }
      }
      for (uint step = kLanesPerRow / 2; step > 0; step /= 2) {
        greatest = max(greatest, subgroupShuffleXor(greatest, step));
      }
      bool risen = greatest > reference[i] + kSlack;
      float correction = 1.0;
      if (risen) {
        correction = exp2(reference[i] - greatest);  // 0 at the first keys
        reference[i] = greatest;
        total[i] *= correction;
      }
      [[unroll]] for (uint g = 0; g < kLaneKeys / 4; ++g) {
        vec4 weight;
        [[unroll]] for (uint e = 0; e < 4; ++e) weight[e] = exp2(mine[g * 4 + e] - reference[i]);
        total[i] += weight.x + weight.y + weight.z + weight.w;
        uint group = g * kLanesPerRow + part;
        uvec2 halves = uvec2(packHalf2x16(weight.xy), packHalf2x16(weight.zw));
        uint at = weight_start + row * kWeightPitch + group / 2;
        if (group % 2 == 0) {
          weights[at].xy = halves;
        } else {
          weights[at].zw = halves;
        }
      }
      if (subgroupAny(risen)) {
        subgroupBarrier();  // every lane has read its scores: their place takes the corrections
        for (uint c = part; c < kSide; c += kLanesPerRow) {
          scores[score_start + row * kScorePitch + c] = correction;
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        coopmat<float, gl_ScopeSubgroup, kSide, kSide, gl_MatrixUseAccumulator> corrections;
        coopMatLoad(corrections, scores, score_start, kScorePitch, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint d = 0; d < kDimSteps; ++d) sums[i * kDimSteps + d] = sums[i * kDimSteps + d] * corrections;
      }
      subgroupMemoryBarrierShared();
      subgroupBarrier();
      [[unroll]] for (uint t = 0; t < kKeys / kInner; ++t) {
        coopmat<float16_t, gl_ScopeSubgroup, kSide, kInner, gl_MatrixUseA> weight;
        coopmat<float16_t, gl_ScopeSubgroup, kInner, kSide, gl_MatrixUseB> value;
        coopMatLoad(weight, weights, weight_start + t * (kInner / 8), kWeightPitch,
                    gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint d = 0; d < kDimSteps; ++d) {
          coopMatLoad(value, kv_tile, (kKeys + t * kInner) * kPitch + d * (kSide / 8), kPitch,
                      gl_CooperativeMatrixLayoutRowMajor);
          sums[i * kDimSteps + d] = coopMatMulAdd(weight, value, sums[i * kDimSteps + d]);
        }
      }
      subgroupBarrier();  // the weights have been read
    }
  }

  [[unroll]] for (uint i = 0; i < kDown; ++i) {
    float sum = total[i];
    for (uint step = kLanesPerRow / 2; step > 0; step /= 2) sum += subgroupShuffleXor(sum, step);
    float scale = 1.0 / sum;
    uint r = first_row + (gl_SubgroupID * kDown + i) * kSide + row;
    uint start = (sequence_start + r) * p.out_row_stride + head * kHeadDim;
    [[unroll]] for (uint d = 0; d < kDimSteps; ++d) {
      subgroupBarrier();
      coopMatStore(sums[i * kDimSteps + d], scores, score_start, kScorePitch,
                   gl_CooperativeMatrixLayoutRowMajor);
      subgroupMemoryBarrierShared();
      subgroupBarrier();
      if (r < n) {
        for (uint c = part * 4; c < kSide; c += kLanesPerRow * 4) {
          uint from = score_start + row * kScorePitch + c;
          vec4 value = vec4(scores[from], scores[from + 1], scores[from + 2], scores[from + 3]) * scale;
          uint at = start + d * kSide + c;
          if (kOutDtype == kDTypeF16) {
            UVec2Buffer(out_).v[at / 4] = uvec2(packHalf2x16(value.xy), packHalf2x16(value.zw));
          } else {
            Vec4Buffer(out_).v[at / 4] = value;
          }
        }
      }
    }
  }
}

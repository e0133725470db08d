// Flash attention on matrix units: f16 queries, keys and values, f32 sums. The work of one
// workgroup, independent of the layout of rows.
//
// A workgroup takes kRows rows of one head of one sequence, a subgroup kDown * kSide of them. Keys
// and values go through shared memory, kKeys at a time. The exponents of a row are relative to a
// reference. It follows the row's maximum only when that has grown by more than kSlack, so the sums
// are rarely rescaled.
//
// With kInRegisters, a lane has the same elements of a score matrix and of a probability matrix
// (llm/vulkan/kernels/matrix_layout.h), so the lane exponentiates them in place. Otherwise scores go
// through the subgroup's part of shared memory, where each row is exponentiated, and are loaded as a
// matrix of probabilities.
//
// Included after the constants kHeadDim, kSubgroups, kDown, kSide, kInner, kLanesPerRow, kKeys,
// kMasked, kInRegisters, kBuffers and kHasSinks, and the address `sinks`. The including file defines
// the functions below.
#ifndef VESPER_SHADERS_ATTENTION_TILE_GLSL_
#define VESPER_SHADERS_ATTENTION_TILE_GLSL_

#include "cooperative_matrices.glsl"

// Eight elements of a row's query.
uvec4 query_chunk(uint head, uint row, uint chunk);
// The rows of the key and the value of a position, for load_keys and load_values.
uvec2 key_rows(uint kv_head, uint key);
// Eight elements of a row, as they are stored.
uvec4 load_keys(uint row, uint chunk);
uvec4 load_values(uint row, uint chunk);
// What was loaded, in f16.
uvec4 widened_keys(uvec4 loaded, uint chunk);
uvec4 widened_values(uvec4 loaded, uint chunk);
// A score times log2(e).
float exponent(float dot);
// The keys [x, y) that are visible to a row; called only if kMasked.
uvec2 visible_keys(uint row);
// Four elements of a row's result.
void store_result(uint head, uint row, uint column, vec4 value);

const float kSlack = 8.0;  // of exponents to base 2: probabilities stay below 2^8, far within f16
const uint kRows = kSubgroups * kDown * kSide;
const uint kThreads = gl_WorkGroupSize.x;
const uint kChunks = kHeadDim / 8;           // of 16 bytes, per row
const uint kPitch = kChunks + 1;             // in chunks
const uint kScorePitch = kKeys + 8;          // in f32
const uint kWeightPitch = kKeys / 8 + 1;     // in 16 bytes
const uint kKeySteps = kKeys / kSide;
const uint kDimSteps = kHeadDim / kSide;
const uint kLaneKeys = kKeys / kLanesPerRow;
const uint kLoads = kKeys * kChunks / kThreads;  // of keys, and of values, per thread

const uint kBuffer = 2 * kKeys * kPitch;
const uint kStagePitch = kSide / 4 + 1;          // of results, in vectors
const uint kStage = kSubgroups * kSide * kStagePitch;

// Queries, then keys and values, then results. With two buffers, the next keys and values are written
// while others are read.
shared uvec4 kv_tile[kBuffers * kBuffer > kStage ? kBuffers * kBuffer : kStage];
shared float scores[kInRegisters != 0 ? 1 : kSubgroups * kSide * kScorePitch];
shared uvec4 weights[kInRegisters != 0 ? 1 : kSubgroups * kSide * kWeightPitch];

// Rows [first_row, n) of the sequence, up to kRows of them, over keys [first_key, end_key).
// first_key is a multiple of kKeys, and n > first_row.
void attend(uint head, uint kv_head, uint first_row, uint n, uint first_key, uint end_key) {
  uint thread = gl_LocalInvocationID.x;
  uint lane = gl_SubgroupInvocationID;
  for (uint i = thread; i < kRows * kChunks; i += kThreads) {
    kv_tile[i / kChunks * kPitch + i % kChunks] =
        query_chunk(head, min(first_row + i / kChunks, n - 1), i % kChunks);
  }
  barrier();
  MATRIX_A query[kDown * (kHeadDim / kInner)];
  UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
    UNROLL_MATRICES for (uint d = 0; d < kHeadDim / kInner; ++d) {
      LOAD_A(query[i * (kHeadDim / kInner) + d], kv_tile,
             (gl_SubgroupID * kDown + i) * kSide * kPitch + d * (kInner / 8), kPitch);
    }
  }
  MATRIX_SUM sums[kDown * kDimSteps];
  UNROLL_MATRICES for (uint i = 0; i < kDown * kDimSteps; ++i) {
    sums[i] = ZERO_SUM;
  }
  // In registers, a lane has kHalf elements of row lane / 4, and kHalf of the row kSide / 2 below.
  // Through shared memory it has every kLanesPerRow-th group of four keys of row lane /
  // kLanesPerRow.
  const uint kHalf = kSide / kLanesPerRow / 2;
  uint row = lane / kLanesPerRow, part = lane % kLanesPerRow;
  uint score_start = gl_SubgroupID * kSide * kScorePitch;
  uint weight_start = gl_SubgroupID * kSide * kWeightPitch;
  float reference[2 * kDown], total[2 * kDown];
  UNROLL_MATRICES for (uint i = 0; i < 2 * kDown; ++i) {
    // Below every score, but finite: a row may see none of the first keys.
    reference[i] = -1e30;
    total[i] = 0.0;
  }
  // The keys that all rows of the subgroup see.
  uvec2 seen_by_all = uvec2(0, end_key);
  if (kMasked != 0) {
    uint at = first_row + gl_SubgroupID * kDown * kSide;
    seen_by_all = uvec2(visible_keys(min(at + kDown * kSide, n) - 1).x, visible_keys(min(at, n - 1)).y);
  }

  // A thread loads chunks of rows (thread + i * kThreads) / kChunks. The rows are found two tiles
  // ahead, because that may need a load. Rows are widened when they are stored to shared memory:
  // widening them where they are loaded would wait for the load.
  uvec4 next_keys[kLoads], next_values[kLoads];
  uvec2 next_rows[kLoads];
  UNROLL_MATRICES for (uint i = 0; i < kLoads; ++i) {
    uint key = first_key + (thread + i * kThreads) / kChunks, chunk = (thread + i * kThreads) % kChunks;
    uvec2 rows = key_rows(kv_head, min(key, end_key - 1));
    next_keys[i] = load_keys(rows.x, chunk);
    next_values[i] = load_values(rows.y, chunk);
    next_rows[i] = key_rows(kv_head, min(key + kKeys, end_key - 1));
  }
  uint tile = 0;  // vector of the buffer
  barrier();  // the queries have been read
  for (uint first = first_key; first < end_key; first += kKeys) {
    UNROLL_MATRICES for (uint i = 0; i < kLoads; ++i) {
      uint at = thread + i * kThreads;
      uint chunk = at % kChunks, slot = tile + at / kChunks * kPitch + chunk;
      kv_tile[slot] = widened_keys(next_keys[i], chunk);
      kv_tile[slot + kKeys * kPitch] = widened_values(next_values[i], chunk);
    }
    barrier();
    MATRIX_SUM score[kDown * kKeySteps];
    UNROLL_MATRICES for (uint t = 0; t < kKeySteps; ++t) {
      UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
        score[i * kKeySteps + t] =
            ZERO_SUM;
      }
      // The next keys are loaded after the first matrices of the present ones, which would otherwise
      // wait behind them in the queue of loads.
      if (t == min(1, kKeySteps - 1) && first + kKeys < end_key) {
        UNROLL_MATRICES for (uint i = 0; i < kLoads; ++i) {
          uint at = thread + i * kThreads;
          next_keys[i] = load_keys(next_rows[i].x, at % kChunks);
          next_values[i] = load_values(next_rows[i].y, at % kChunks);
          uint key = first + 2 * kKeys + at / kChunks;
          next_rows[i] = key_rows(kv_head, min(key, end_key - 1));
        }
      }
      UNROLL_MATRICES for (uint d = 0; d < kHeadDim / kInner; ++d) {
        MATRIX_B key;
        LOAD_B(key, kv_tile, tile + t * kSide * kPitch + d * (kInner / 8), kPitch);
        UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
          score[i * kKeySteps + t] =
              MULTIPLY_ADD(query[i * (kHeadDim / kInner) + d], key, score[i * kKeySteps + t]);
        }
      }
    }
    if (kInRegisters != 0) {
      bool hides = first < seen_by_all.x || first + kKeys > seen_by_all.y;
      MATRIX_A weight[kDown * kKeySteps];
      UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
        UNROLL_MATRICES for (uint h = 0; h < 2; ++h) {
          float mine[kKeySteps * kHalf];
          UNROLL_MATRICES for (uint t = 0; t < kKeySteps; ++t) {
            UNROLL_MATRICES for (uint e = 0; e < kHalf; ++e) {
              mine[t * kHalf + e] = exponent(score[i * kKeySteps + t][h * kHalf + e]);
            }
          }
          if (hides) {
            uvec2 visible = uvec2(0, end_key);
            if (kMasked != 0) {
              uint at = first_row + (gl_SubgroupID * kDown + i) * kSide + h * (kSide / 2) + lane / 4;
              visible = visible_keys(min(at, n - 1));
            }
            UNROLL_MATRICES for (uint t = 0; t < kKeySteps; ++t) {
              UNROLL_MATRICES for (uint e = 0; e < kHalf; ++e) {
                uint key = first + t * kSide + e / 2 * 8 + lane % 4 * 2 + e % 2;
                if (key < visible.x || key >= visible.y) mine[t * kHalf + e] = kMinusInfinity;
              }
            }
          }
          float greatest = mine[0];
          UNROLL_MATRICES for (uint m = 1; m < kKeySteps * kHalf; ++m) {
            greatest = max(greatest, mine[m]);
          }
          greatest = max(greatest, subgroupShuffleXor(greatest, 1));
          greatest = max(greatest, subgroupShuffleXor(greatest, 2));
          bool risen = greatest > reference[2 * i + h] + kSlack;
          if (subgroupAny(risen)) {
            // 0 at the first keys.
            float correction = risen ? exp2(reference[2 * i + h] - greatest) : 1.0;
            if (risen) reference[2 * i + h] = greatest;
            total[2 * i + h] *= correction;
            UNROLL_MATRICES for (uint d = 0; d < kDimSteps; ++d) {
              UNROLL_MATRICES for (uint e = 0; e < kHalf; ++e) {
                sums[i * kDimSteps + d][h * kHalf + e] *= correction;
              }
            }
          }
          UNROLL_MATRICES for (uint t = 0; t < kKeySteps; ++t) {
            UNROLL_MATRICES for (uint e = 0; e < kHalf; ++e) {
              float exponential = exp2(mine[t * kHalf + e] - reference[2 * i + h]);
              total[2 * i + h] += exponential;
              weight[i * kKeySteps + t][h * kHalf + e] = float16_t(exponential);
            }
          }
        }
      }
      UNROLL_MATRICES for (uint t = 0; t < kKeySteps; ++t) {
        UNROLL_MATRICES for (uint d = 0; d < kDimSteps; ++d) {
          MATRIX_B value;
          LOAD_B_ROWS(value, kv_tile, tile + (kKeys + t * kInner) * kPitch + d * (kSide / 8), kPitch);
          UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
            sums[i * kDimSteps + d] =
                MULTIPLY_ADD(weight[i * kKeySteps + t], value, sums[i * kDimSteps + d]);
          }
        }
      }
    } else {
      UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
        UNROLL_MATRICES for (uint t = 0; t < kKeySteps; ++t) {
          STORE_SUM_FLOATS(score[i * kKeySteps + t], scores, score_start + t * kSide, kScorePitch);
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();

        float mine[kLaneKeys];
        float greatest = kMinusInfinity;
        uvec2 visible = uvec2(0, end_key);
        if (kMasked != 0) {
          uint at = first_row + (gl_SubgroupID * kDown + i) * kSide + row;
          visible = visible_keys(min(at, n - 1));
        }
        UNROLL_MATRICES for (uint g = 0; g < kLaneKeys / 4; ++g) {
          uint column = (g * kLanesPerRow + part) * 4;
          UNROLL_MATRICES for (uint e = 0; e < 4; ++e) {
            float score = exponent(scores[score_start + row * kScorePitch + column + e]);
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
        UNROLL_MATRICES for (uint g = 0; g < kLaneKeys / 4; ++g) {
          vec4 weight;
          UNROLL_MATRICES for (uint e = 0; e < 4; ++e) weight[e] = exp2(mine[g * 4 + e] - reference[i]);
          total[i] += weight.x + weight.y + weight.z + weight.w;
          uint group = g * kLanesPerRow + part;
          uvec2 halves = pack_half4(weight);
          uint at = weight_start + row * kWeightPitch + group / 2;
          if (group % 2 == 0) {
            weights[at].xy = halves;
          } else {
            weights[at].zw = halves;
          }
        }
        if (subgroupAny(risen)) {
          subgroupBarrier();  // all scores have been read: the corrections reuse their memory
          for (uint c = part; c < kSide; c += kLanesPerRow) {
            scores[score_start + row * kScorePitch + c] = correction;
          }
          subgroupMemoryBarrierShared();
          subgroupBarrier();
          MATRIX_SUM corrections;
          LOAD_SUM_FLOATS(corrections, scores, score_start, kScorePitch);
          UNROLL_MATRICES for (uint d = 0; d < kDimSteps; ++d) {
            sums[i * kDimSteps + d] = MULTIPLY_ELEMENTS(sums[i * kDimSteps + d], corrections);
          }
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        UNROLL_MATRICES for (uint t = 0; t < kKeys / kInner; ++t) {
          MATRIX_A weight;
          MATRIX_B value;
          LOAD_A(weight, weights, weight_start + t * (kInner / 8), kWeightPitch);
          UNROLL_MATRICES for (uint d = 0; d < kDimSteps; ++d) {
            LOAD_B_ROWS(value, kv_tile, tile + (kKeys + t * kInner) * kPitch + d * (kSide / 8),
                        kPitch);
            sums[i * kDimSteps + d] = MULTIPLY_ADD(weight, value, sums[i * kDimSteps + d]);
          }
        }
        subgroupBarrier();  // the weights have been read
      }
    }
    // With two buffers, the next barrier separates these loads from the stores after it.
    if (kBuffers == 1) {
      barrier();
    } else {
      tile = kBuffer - tile;
    }
  }

  barrier();  // the keys and values have been read
  float sink = 0.0;  // in the units of exponents
  if (kHasSinks != 0) sink = F32Buffer(sinks).v[head] * kLog2E;
  uint stage_start = gl_SubgroupID * kSide * kStagePitch;
  UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
    float scale = 1.0;
    if (kInRegisters != 0) {
      UNROLL_MATRICES for (uint h = 0; h < 2; ++h) {
        float sum = total[2 * i + h];
        sum += subgroupShuffleXor(sum, 1);
        sum += subgroupShuffleXor(sum, 2);
        if (kHasSinks != 0) sum += exp2(min(sink - reference[2 * i + h], kMostExponent));
        UNROLL_MATRICES for (uint d = 0; d < kDimSteps; ++d) {
          UNROLL_MATRICES for (uint e = 0; e < kHalf; ++e) {
            sums[i * kDimSteps + d][h * kHalf + e] *= 1.0 / sum;
          }
        }
      }
    } else {
      float sum = total[i];
      for (uint step = kLanesPerRow / 2; step > 0; step /= 2) sum += subgroupShuffleXor(sum, step);
      if (kHasSinks != 0) sum += exp2(min(sink - reference[i], kMostExponent));
      scale = 1.0 / sum;
    }
    uint r = first_row + (gl_SubgroupID * kDown + i) * kSide + row;
    UNROLL_MATRICES for (uint d = 0; d < kDimSteps; ++d) {
      subgroupBarrier();
      STORE_SUM(sums[i * kDimSteps + d], kv_tile, stage_start, kStagePitch);
      subgroupMemoryBarrierShared();
      subgroupBarrier();
      if (r < n) {
        for (uint c = part * 4; c < kSide; c += kLanesPerRow * 4) {
          vec4 value = uintBitsToFloat(kv_tile[stage_start + row * kStagePitch + c / 4]) * scale;
          store_result(head, r, d * kSide + c, value);
        }
      }
    }
  }
}

#endif

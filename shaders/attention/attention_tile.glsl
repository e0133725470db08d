// Flash attention on matrix units: f16 queries, keys and values, f32 sums. The work of one
// workgroup, independent of the layout of rows.
//
// A workgroup takes kRows rows of one head of one sequence, a subgroup kDown * kSide of them. Keys
// and values go through shared memory, kKeys at a time. The exponents of a row are relative to a
// reference, which rarely changes, so the sums are rarely rescaled.
//
// With kInRegisters, a lane has the same elements of a score matrix and of a probability matrix
// (llm/vulkan/kernels/matrix_layout.h), so the lane exponentiates them in place. The reference of a
// row begins as the score of its own key, which is at most the maximum. If probabilities become too
// large for f16, it is raised, and those of the present keys are computed again. So no maximum is
// needed (docs/measurements/0031, "Attention without maximums").
//
// Otherwise scores go through the subgroup's part of shared memory, where each row is exponentiated,
// and are loaded as a matrix of probabilities. The reference follows the row's maximum when that has
// grown by more than kSlack.
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
// The position of a row itself. The row sees its key.
uint own_key(uint row);
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
// The greatest sum of a lane's probabilities of kKeys keys. Each of them is then within f16, whose
// greatest number is 65,504.
const float kMostSum = 16384.0;
// The most by which a reference is raised at once. If a sum is infinite, some exponent is above 120,
// so the reference stays below the maximum of the row.
const float kMostRaise = 100.0;
// How often references may be raised for the same keys. It ends the loop if scores are infinite.
const uint kMostRaises = 1000;
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

// A thread loads chunks of rows (thread + i * kThreads) / kChunks. The rows are found two tiles ahead,
// because that may need a load. Rows are widened when they are stored to shared memory: widening them
// where they are loaded would wait for the load.
uvec4 next_keys[kLoads], next_values[kLoads];
uvec2 next_rows[kLoads];

// Finds the rows of keys [first, first + kKeys). Instead of keys after the last one, it is loaded.
void find_rows(uint kv_head, uint first, uint end_key) {
  UNROLL_MATRICES for (uint i = 0; i < kLoads; ++i) {
    uint key = first + (gl_LocalInvocationID.x + i * kThreads) / kChunks;
    next_rows[i] = key_rows(kv_head, min(key, end_key - 1));
  }
}
// Loads the rows that find_rows() has found. May be repeated.
void load_found_rows() {
  UNROLL_MATRICES for (uint i = 0; i < kLoads; ++i) {
    uint chunk = (gl_LocalInvocationID.x + i * kThreads) % kChunks;
    next_keys[i] = load_keys(next_rows[i].x, chunk);
    next_values[i] = load_values(next_rows[i].y, chunk);
  }
}

// The exponent of a row's score with its own key. Lanes with the same lane % kSide have the same row
// and share its chunks.
float own_exponent(uint head, uint kv_head, uint row) {
  uint key = key_rows(kv_head, own_key(row)).x;
  float score = 0.0;
  for (uint c = gl_SubgroupInvocationID / kSide; c < kChunks; c += kLanesPerRow) {
    uvec4 of_query = query_chunk(head, row, c), of_key = widened_keys(load_keys(key, c), c);
    score += dot(unpack_half4(of_query.xy), unpack_half4(of_key.xy)) +
             dot(unpack_half4(of_query.zw), unpack_half4(of_key.zw));
  }
  for (uint step = 1; step < kLanesPerRow; step *= 2) {
    score += subgroupShuffleXor(score, step * kSide);
  }
  return exponent(score);
}

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
    // Through shared memory: below every score, but finite, because a row may see none of the first
    // keys.
    reference[i] = -1e30;
    total[i] = 0.0;
  }
  // The keys that all rows of the subgroup see.
  uvec2 seen_by_all = uvec2(0, end_key);
  if (kMasked != 0) {
    uint at = first_row + gl_SubgroupID * kDown * kSide;
    seen_by_all = uvec2(visible_keys(min(at + kDown * kSide, n) - 1).x, visible_keys(min(at, n - 1)).y);
  }

  find_rows(kv_head, first_key, end_key);
  load_found_rows();
  find_rows(kv_head, first_key + kKeys, end_key);
  if (kInRegisters != 0) {
    UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
      uint at = first_row + (gl_SubgroupID * kDown + i) * kSide + lane % kSide;
      float own = own_exponent(head, kv_head, min(at, n - 1));
      reference[2 * i] = subgroupShuffle(own, lane / 4);
      reference[2 * i + 1] = subgroupShuffle(own, kSide / 2 + lane / 4);
    }
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
    // The next keys are loaded after the first matrices of the present ones, which would otherwise
    // wait behind them in the queue of loads.
    const uint kLoadStep = min(1, kKeySteps - 1);
    if (kInRegisters != 0) {
      bool hides = first < seen_by_all.x || first + kKeys > seen_by_all.y;
      MATRIX_A weight[kDown * kKeySteps];
      float part_total[2 * kDown];  // of these keys
      [[dont_unroll]] for (uint n_raised = 0;; ++n_raised) {
        UNROLL_MATRICES for (uint i = 0; i < 2 * kDown; ++i) {
          part_total[i] = 0.0;
        }
        UNROLL_MATRICES for (uint t = 0; t < kKeySteps; ++t) {
          MATRIX_SUM score[kDown];
          UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
            score[i] = ZERO_SUM;
          }
          if (t == kLoadStep) load_found_rows();
          UNROLL_MATRICES for (uint d = 0; d < kHeadDim / kInner; ++d) {
            MATRIX_B key;
            LOAD_B(key, kv_tile, tile + t * kSide * kPitch + d * (kInner / 8), kPitch);
            UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
              score[i] = MULTIPLY_ADD(query[i * (kHeadDim / kInner) + d], key, score[i]);
            }
          }
          UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
            UNROLL_MATRICES for (uint e = 0; e < 2 * kHalf; ++e) {
              score[i][e] = exponent(score[i][e]);
            }
          }
          if (hides) {
            UNROLL_MATRICES for (uint i = 0; i < 2 * kDown; ++i) {
              uvec2 visible = uvec2(0, end_key);
              if (kMasked != 0) {
                uint at = first_row + gl_SubgroupID * kDown * kSide + i * (kSide / 2) + lane / 4;
                visible = visible_keys(min(at, n - 1));
              }
              UNROLL_MATRICES for (uint e = 0; e < kHalf; ++e) {
                uint key = first + t * kSide + e / 2 * 8 + lane % 4 * 2 + e % 2;
                if (key < visible.x || key >= visible.y) {
                  score[i / 2][i % 2 * kHalf + e] = kMinusInfinity;
                }
              }
            }
          }
          UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
            UNROLL_MATRICES for (uint e = 0; e < 2 * kHalf; ++e) {
              float probability = exp2(score[i][e] - reference[2 * i + e / kHalf]);
              part_total[2 * i + e / kHalf] += probability;
              weight[i * kKeySteps + t][e] = float16_t(probability);
            }
          }
        }
        float greatest = part_total[0];
        UNROLL_MATRICES for (uint i = 1; i < 2 * kDown; ++i) {
          greatest = max(greatest, part_total[i]);
        }
        if (!subgroupAny(greatest > kMostSum) || n_raised == kMostRaises) break;
        UNROLL_MATRICES for (uint i = 0; i < 2 * kDown; ++i) {
          float sum = part_total[i];
          sum += subgroupShuffleXor(sum, 1);
          sum += subgroupShuffleXor(sum, 2);
          float raise = sum > kMostSum ? min(log2(sum), kMostRaise) : 0.0;
          float correction = exp2(-raise);
          reference[i] += raise;
          total[i] *= correction;
          UNROLL_MATRICES for (uint d = 0; d < kDimSteps; ++d) {
            UNROLL_MATRICES for (uint e = 0; e < kHalf; ++e) {
              sums[i / 2 * kDimSteps + d][i % 2 * kHalf + e] *= correction;
            }
          }
        }
      }
      UNROLL_MATRICES for (uint i = 0; i < 2 * kDown; ++i) {
        total[i] += part_total[i];
      }
      find_rows(kv_head, first + 2 * kKeys, end_key);
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
      MATRIX_SUM score[kDown * kKeySteps];
      UNROLL_MATRICES for (uint t = 0; t < kKeySteps; ++t) {
        UNROLL_MATRICES for (uint i = 0; i < kDown; ++i) {
          score[i * kKeySteps + t] = ZERO_SUM;
        }
        if (t == kLoadStep) {
          load_found_rows();
          find_rows(kv_head, first + 2 * kKeys, end_key);
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

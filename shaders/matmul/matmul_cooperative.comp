// matmul for many rows on matrix units: f16 x f16, f32 sums.
//
// A workgroup computes a tile of kTileRows x kTileOuts, a subgroup kSubgroupRows x kSubgroupOuts of
// it, in cooperative matrices of kSide x kSide. Blocks of kDepth columns go through shared memory;
// the next block is loaded to registers while the matrix units work. Rows in shared memory have 16
// bytes of padding, so that the rows of a matrix are in different banks. Starts and strides of `in`
// must be multiples of 8 elements.
//
// Weights in the order of matrices (llm/vulkan/kernels/weight_layout.h) do not go through shared
// memory: each subgroup loads those of its outputs, kDepth columns before it needs them.
//
// In a gated product, every eight weight rows of a tile are four gate rows and their four up rows. A
// matrix then has both sums of an output.
//
// kSplits workgroups may divide the columns of a tile. Each writes its sums to `partials`. The sums of
// a tile are then added in kSplits parts, always in the same order (divided_columns.glsl).
// Grid: (blocks of outputs, blocks of rows, kSplits), or with kGrouped (blocks of rows in a group,
// blocks of outputs, groups). With kGrouped, successive workgroups load the same weights, so that all
// but the first find them in the cache.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "buffers.glsl"
#include "matmul/matmul_epilogue.glsl"
#include "weights.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kTileRows = 64;
layout(constant_id = 2) const uint kTileOuts = 64;
layout(constant_id = 3) const uint kDepth = 32;
layout(constant_id = 4) const uint kSubgroupRows = 32;
layout(constant_id = 5) const uint kSubgroupOuts = 32;
layout(constant_id = 6) const uint kSide = 16;
layout(constant_id = 7) const uint kInner = 16;  // columns of one multiplication
layout(constant_id = 8) const uint kDtypes = 0;  // in | out << 4
layout(constant_id = 9) const uint kFlags = 0;
layout(constant_id = 10) const uint kPresent = 0;
layout(constant_id = 11) const uint kAlignedOut = 0;  // out, bias and residual are aligned to 8
                                                      // outputs
layout(constant_id = 12) const uint kWeightFormat = 0;
layout(constant_id = 13) const uint kActivation = 0;
layout(constant_id = 14) const uint kSplits = 1;
layout(constant_id = 15) const uint kWholeSteps = 0;  // n_in is a multiple of kDepth
layout(constant_id = 16) const uint kInMatrices = 0;  // the weights are in the order of matrices
// The rows of `in` (bit 0) or of the output (bit 1) have no common stride.
layout(constant_id = 17) const uint kBatches = 0;
layout(constant_id = 18) const uint kGrouped = 0;  // 1: only if kSplits is 1
#include "cooperative_matrices.glsl"
#include "quantized.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Partials { uvec4 v[]; };

layout(push_constant) uniform Push {
  Address out_, in_, weight, bias, residual, scale;
  MatmulParams p;
  Partials partials;  // [tiles, kSplits, subgroups, kMatrices, kSide, kSide]
  Counters counters;  // of each tile and of all tiles, [tiles + 1], zero between dispatches
};
#include "matmul/divided_columns.glsl"

const uint kInDtype = kDtypes & 15u;
const uint kOutDtype = kDtypes >> 4 & 15u;
const uint kThreads = gl_WorkGroupSize.x;
const uint kChunks = kDepth / 8;  // of 8 halves, 16 bytes, in a row of a block
const uint kPitch = kChunks + 1;
const uint kStep = kThreads / kChunks;  // rows that the workgroup loads at once
const uint kInLoads = (kTileRows + kStep - 1) / kStep;
const uint kWeightLoads = kInBlocks || kInMatrices != 0 ? 1 : (kTileOuts + kStep - 1) / kStep;
// Quantized weights are loaded by blocks of 32 columns instead.
const uint kBlocks = kDepth / 32;  // in a row of the tile
const uint kBlockStep = kThreads / kBlocks;
const uint kBlockLoads = kInBlocks ? (kTileOuts + kBlockStep - 1) / kBlockStep : 1;
const bool kScalesAhead = kHasScaleWords && kDepth == 64;
// Whether half of the rows of a block are loaded one multiplication after the others.
const bool kHalfLater = kInBlocks && kTileRows >= 128;
const uint kDown = kSubgroupRows / kSide;
const uint kAcross = kSubgroupOuts / kSide;
const uint kSubgroupsAcross = kTileOuts / kSubgroupOuts;
const uint kSubgroups = kTileRows / kSubgroupRows * kSubgroupsAcross;
const uint kMatrices = kDown * kAcross;
const uint kStagePitch = kSubgroupOuts / 4 + 1;  // of vectors
// Writes of eight outputs by a lane, for kSide rows.
const uint kLanes = kThreads / kSubgroups;
const uint kWrites = (kSide * kSubgroupOuts / 8 + kLanes - 1) / kLanes;
const bool kGated = (kFlags & kMatmulGated) != 0;
const uint kInners = kDepth / kInner;  // multiplications per block of columns

const uint kWeightTile = kTileRows * kPitch;
const uint kMatrixVectors = kSide * kSide / 4;
const uint kTileVectors = kTileRows * kTileOuts / 4;  // of the sums of a tile

// A tile of `in`, then a tile of weights. At the end, sums.
const uint kTilesVectors = (kTileRows + (kInMatrices != 0 ? 0 : kTileOuts)) * kPitch;
const uint kStageVectors = kSubgroups * kSide * kStagePitch;
shared uvec4 tiles[kTilesVectors > kStageVectors ? kTilesVectors : kStageVectors];
shared uint next_part;  // of a tile's sums that this workgroup adds; kSplits or more: none

// Whether the tile has this row: the last step of loads may go beyond the tile.
bool in_tile(uint row, uint step, uint rows) { return rows % step == 0 || row < rows; }

uvec4 pack_halves(vec4 low, vec4 high) { return uvec4(pack_half4(low), pack_half4(high)); }

// Eight elements from i, a multiple of 8, as f16.
uvec4 load_halves(Address address, uint i, uint format) {
  if (format == kDTypeF16) return UVec4Buffer(address).v[i / 8];
  return pack_halves(Vec4Buffer(address).v[i / 4], Vec4Buffer(address).v[i / 4 + 1]);
}

// Eight weights of output o from column k on. int8 stays in the first two words until it is used,
// because a conversion would wait for the load.
uvec4 load_weight_bits(uint o, uint k, uint columns) {
  uint i = o * columns + k;
  if (kWeightFormat == kDTypeI8) return uvec4(UVec2Buffer(weight).v[i / 8], 0, 0);
  return load_halves(weight, i, kWeightFormat);
}
uvec4 weight_halves(uvec4 bits) {
  if (kWeightFormat != kDTypeI8) return bits;
  return pack_halves(unpack_bytes(bits.x), unpack_bytes(bits.y));
}

// f16 scales, and scales in parts with minimums, are multiplied in f16, with half of the
// instructions of f32. With f16 scales only the last operation rounds. With parts, the product of a
// part (6 bits) and a code (5 bits at most), counted from the middle code, is an integer below 2,048,
// which f16 has exactly. The weight of the middle code, which is usually near zero, replaces the
// minimum and is rounded to f16.
const bool kInHalves = kScaleKind == 0 || kScaleKind == 3 && kScaleKinds == 2;
const uint kMiddle = kScaleKind == 3 ? (1u << kCodeBits) / 2 : kScaleKinds == 1 ? kZero : 0;

struct HalfScale {
  f16vec2 part, scale, minimum;
};

HalfScale half_scale(uvec2 bits) {
  f16vec2 stored = unpackFloat2x16(bits.x);
  HalfScale scale = HalfScale(f16vec2(1.0), stored.xx, stored.yy);
  if (kScaleKind == 3) {
    vec2 group = group_scale(bits);
    scale.part = f16vec2(float16_t(byte_value(bits.y)));
    scale.minimum = f16vec2(float16_t(group.y + float(kMiddle) * group.x));
  }
  return scale;
}

// Columns 0 and 1 of the four of a word. A code in the low bits of 1,024 needs one exact subtraction.
uint weight_pair(uint codes, HalfScale scale) {
  f16vec2 values = unpackFloat2x16(codes & 0x00ff00ffu | 0x64006400u);
  values -= float16_t(1024.0 + float(kMiddle));
  if (kScaleKind == 3) values *= scale.part;
  return packFloat2x16(kScaleKinds == 1 ? values * scale.scale
                                        : fma(values, scale.scale, scale.minimum));
}

// Columns 8 i to 8 i + 7 of a block of quantized weights.
uvec4 block_halves(CodeBlock block, uint i) {
  uvec2 codes = block_codes(block, i);
  if (kInHalves) {
    HalfScale scale = half_scale(block.groups[i / 2]);
    return uvec4(weight_pair(codes.x, scale), weight_pair(codes.x >> 8, scale),
                 weight_pair(codes.y, scale), weight_pair(codes.y >> 8, scale));
  }
  vec2 group = group_scale(block.groups[i / 2]);
  vec4 low = code_values(codes.x) * group.x, high = code_values(codes.y) * group.x;
  if (kScaleKinds == 2) {
    low += group.y;
    high += group.y;
  }
  return pack_halves(low, high);
}

// Of the workgroup's tile.
uint out_block() { return kGrouped != 0 ? gl_WorkGroupID.y : gl_WorkGroupID.x; }
uint row_block() {
  return kGrouped != 0 ? gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x
                       : gl_WorkGroupID.y;
}

// The row of the weight that is row `row` of the tile.
uint weight_row(uint row) {
  uint at = out_block() * kTileOuts + row;
  if (!kGated) return min(at, p.n_out - 1);
  uint o = min(at / 8 * 4 + at % 4, p.n_out - 1);
  return at % 8 < 4 ? o : p.n_out + o;
}

// The block of 32 columns that a thread loads for row `row` of the tile. After the last column it
// is the last block, which is multiplied with zeros. With kScalesAhead, its scales come separately.
CodeBlock load_tile_block(uint row, uint k) {
  k = min(k, p.n_in - 32);
  if (kScalesAhead) return load_block_codes(weight, weight_row(row), p.n_in, k);
  return load_block(weight, scale, weight_row(row), p.n_in, k);
}

// The element with which a row begins. Rows with a common stride need no divisions.
uint in_row_start(uint r) {
  if ((kBatches & 1u) == 0) return r * p.in_row_stride;
  return r / p.rows_per_batch * p.in_batch_stride + r % p.rows_per_batch * p.in_row_stride;
}
uint out_row_start(uint r) {
  if ((kBatches & 2u) == 0) return r * p.out_row_stride;
  return r / p.rows_per_batch * p.out_batch_stride + r % p.rows_per_batch * p.out_row_stride;
}
uint residual_row_start(uint r) {
  return (kFlags & kMatmulResidualByRow) != 0 ? r % p.rows_per_batch * p.n_out : out_row_start(r);
}

// Scales and biases of eight sums, columns i to i + 7 of the tiles, with aligned outputs: of eight
// outputs, or of four gates and their four up rows.
struct Terms {
  vec4 scale[2], bias[2];
};
Terms load_terms(uint i) {
  Terms terms;
  if (kAlignedOut == 0) return terms;
  uint o = (kGated ? i / 2 : i) / 4, other = kGated ? p.n_out / 4 + o : o + 1;
  if ((kPresent & kHasScale) != 0) {
    terms.scale[0] = Vec4Buffer(scale).v[o];
    terms.scale[1] = Vec4Buffer(scale).v[other];
  }
  if ((kPresent & kHasBias) != 0) {
    terms.bias[0] = Vec4Buffer(bias).v[o];
    terms.bias[1] = Vec4Buffer(bias).v[other];
  }
  return terms;
}
vec4 completed(vec4 sum, Terms terms, uint part) {
  if ((kPresent & kHasScale) != 0) sum *= terms.scale[part];
  if ((kPresent & kHasBias) != 0) sum += terms.bias[part];
  return sum;
}
vec4 activated(vec4 x) {
  return vec4(activate(kActivation, x.x), activate(kActivation, x.y), activate(kActivation, x.z),
              activate(kActivation, x.w));
}
float completed(float sum, uint o) {
  if ((kPresent & kHasScale) != 0) sum *= F32Buffer(scale).v[o];
  if ((kPresent & kHasBias) != 0) sum += F32Buffer(bias).v[o];
  return sum;
}

// Output o of row r. `other`: the sum of the up row, if gated.
void finish_output(uint r, uint o, float sum, float other) {
  float value = activate(kActivation, completed(sum, o));
  if (kGated) value *= completed(other, p.n_out + o);
  if ((kPresent & kHasResidual) != 0) value += F32Buffer(residual).v[residual_row_start(r) + o];
  store_float(out_, out_row_start(r) + o, kOutDtype, value);
}

// The residual of eight sums of row r, columns i to i + 7 of the tiles, with aligned outputs: of
// eight outputs, or of four with gates. The compiler cannot move these loads before stores, which may
// be to the same buffer, so they stand before the stores of kSide rows.
struct Residual {
  vec4 first, second;
};
Residual load_residual(uint r, uint i) {
  Residual before = Residual(vec4(0.0), vec4(0.0));
  if (kAlignedOut == 0 || (kPresent & kHasResidual) == 0) return before;
  uint at = (residual_row_start(r) + (kGated ? i / 2 : i)) / 4;
  before.first = Vec4Buffer(residual).v[at];
  if (!kGated) before.second = Vec4Buffer(residual).v[at + 1];
  return before;
}

// Eight sums of row r, columns i to i + 7 of the tiles: eight outputs, or four with gates.
void finish_outputs(uint r, uint i, vec4 low, vec4 high, Terms terms, Residual before) {
  uint o = kGated ? i / 2 : i;
  if (kAlignedOut != 0) {
    uint start = out_row_start(r);
    low = completed(low, terms, 0);
    high = completed(high, terms, 1);
    vec4 first = activated(low), second = vec4(0.0);
    if (kGated) {
      first *= high;
    } else {
      second = activated(high) + before.second;
    }
    first += before.first;
    if (kOutDtype == kDTypeF16) {
      if (kGated) {
        UVec2Buffer(out_).v[(start + o) / 4] = pack_half4(first);
      } else {
        UVec4Buffer(out_).v[(start + o) / 8] = pack_halves(first, second);
      }
    } else {
      Vec4Buffer(out_).v[(start + o) / 4] = first;
      if (!kGated) Vec4Buffer(out_).v[(start + o) / 4 + 1] = second;
    }
    return;
  }
  for (uint e = 0; e < (kGated ? 4 : 8) && o + e < p.n_out; ++e) {
    finish_output(r, o + e, e < 4 ? low[e] : high[e - 4], high[e % 4]);
  }
}

// Adds a part of the sums of a tile.
void add_part(uint part_to_add, uint first_partial, uint first_row, uint first_out, uint n_sums) {
  uint end = kTileVectors / 2 * (part_to_add + 1) / kSplits;
  for (uint i = kTileVectors / 2 * part_to_add / kSplits + gl_LocalInvocationID.x; i < end;
       i += kThreads) {
    uint in_matrix = i % (kMatrixVectors / 2), matrix = i / (kMatrixVectors / 2);
    uint subgroup = matrix / kMatrices;
    uint row = first_row + subgroup / kSubgroupsAcross * kSubgroupRows +
               matrix % kMatrices / kAcross * kSide + in_matrix / (kSide / 8);
    uint column = first_out + subgroup % kSubgroupsAcross * kSubgroupOuts +
                  matrix % kAcross * kSide + in_matrix % (kSide / 8) * 8;
    if (row >= p.n_rows || column >= n_sums) continue;
    Residual before = load_residual(row, column);
    Terms terms = load_terms(column);
    uvec4 sums[kSplits * 2];  // all loads are in flight at once
    [[unroll]] for (uint n = 0; n < kSplits; ++n) {
      uint at = first_partial + n * kTileVectors + i * 2;
      sums[n * 2] = partials.v[at];
      sums[n * 2 + 1] = partials.v[at + 1];
    }
    vec4 low = vec4(0.0), high = vec4(0.0);
    [[unroll]] for (uint n = 0; n < kSplits; ++n) {
      low += uintBitsToFloat(sums[n * 2]);
      high += uintBitsToFloat(sums[n * 2 + 1]);
    }
    finish_outputs(row, column, low, high, terms, before);
  }
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  if (kSplits > 1 && thread == 0) atomicAdd(counters.v[n_tiles()], kStarted);
  uint first_row = row_block() * kTileRows;
  uint first_out = out_block() * kTileOuts;
  uint split = kGrouped != 0 ? 0 : gl_WorkGroupID.z;
  if (kGrouped != 0 && first_row >= p.n_rows) return;  // the last group may have fewer blocks
  uint n_sums = kGated ? 2 * p.n_out : p.n_out;
  uint columns = padded_columns(p.n_in);
  uint n_steps = (columns + kDepth - 1) / kDepth;
  uint first_column = n_steps * split / kSplits * kDepth;
  uint end_column = min(n_steps * (split + 1) / kSplits * kDepth, columns);
  uint chunk = thread % kChunks;
  uint load_row = thread / kChunks;

  uint in_start[kInLoads];
  [[unroll]] for (uint i = 0; i < kInLoads; ++i) {
    uint r = min(first_row + load_row + i * kStep, p.n_rows - 1);
    in_start[i] = in_row_start(r);
  }
  uint weight_out[kWeightLoads];
  [[unroll]] for (uint i = 0; i < kWeightLoads; ++i) {
    weight_out[i] = weight_row(load_row + i * kStep);
  }

  MATRIX_SUM sums[kMatrices];
  [[unroll]] for (uint i = 0; i < kMatrices; ++i) {
    sums[i] = ZERO_SUM;
  }
  uint tile_row = gl_SubgroupID / kSubgroupsAcross * kSubgroupRows;
  uint tile_out = gl_SubgroupID % kSubgroupsAcross * kSubgroupOuts;

  uvec4 in_next[kInLoads], weight_next[kWeightLoads];
  uint start_column = min(first_column + chunk * 8, p.n_in - 8);
  [[unroll]] for (uint i = 0; i < kInLoads; ++i) {
    in_next[i] = load_halves(in_, in_start[i] + start_column, kInDtype);
  }
  CodeBlock block_next[kBlockLoads];
  ScaleWords scales[kBlockLoads];  // rotated, so that the first word is that of the next columns
  uint block_row = thread / kBlocks, block = thread % kBlocks;
  if (kInBlocks) {
    [[unroll]] for (uint i = 0; i < kBlockLoads; ++i) {
      uint row = block_row + i * kBlockStep;
      block_next[i] = load_tile_block(row, first_column + block * 32);
      if (kScalesAhead) {
        scales[i] = load_scale_words(scale, weight_row(row), p.n_in, min(first_column, p.n_in - 32));
        for (uint k = first_column % 256; k != 0; k -= 64) scales[i].words = scales[i].words.yzwx;
      }
    }
  } else if (kInMatrices == 0) {
    [[unroll]] for (uint i = 0; i < kWeightLoads; ++i) {
      weight_next[i] = load_weight_bits(weight_out[i], start_column, columns);
    }
  }
  // Weights in the order of matrices. After the last column, the last matrix is loaded again, and
  // multiplied with zeros of `in`. For outputs that do not exist, the last matrices are loaded.
  ORDERED_B ordered[kInMatrices != 0 ? kAcross * kInners : 1];
  uint ordered_start[kInMatrices != 0 ? kAcross : 1];
  uint n_inners = columns / kInner;
  if (kInMatrices != 0) {
    [[unroll]] for (uint j = 0; j < kAcross; ++j) {
      ordered_start[j] = min((first_out + tile_out) / kSide + j, n_sums / kSide - 1) * n_inners;
      [[unroll]] for (uint k = 0; k < kInners; ++k) {
        LOAD_ORDERED_B(ordered[k * kAcross + j], UVec4Buffer(weight).v,
                       ordered_start[j] + min(first_column / kInner + k, n_inners - 1));
      }
    }
  }
  for (uint k0 = first_column; k0 < end_column; k0 += kDepth) {
    [[unroll]] for (uint i = 0; i < kInLoads; ++i) {
      uint row = load_row + i * kStep;
      if (in_tile(row, kStep, kTileRows)) {
        bool exists = kWholeSteps != 0 || k0 + chunk * 8 < p.n_in;
        tiles[row * kPitch + chunk] = exists ? in_next[i] : uvec4(0);
      }
    }
    if (kInBlocks) {
      [[unroll]] for (uint i = 0; i < kBlockLoads; ++i) {
        uint row = block_row + i * kBlockStep;
        if (kScalesAhead) {
          block_next[i].groups = first_word_groups(scales[i], block);
          scales[i].words = scales[i].words.yzwx;
        }
        if (in_tile(row, kBlockStep, kTileOuts)) {
          [[unroll]] for (uint c = 0; c < 4; ++c) {
            tiles[kWeightTile + row * kPitch + block * 4 + c] = block_halves(block_next[i], c);
          }
        }
      }
    } else if (kInMatrices == 0) {
      [[unroll]] for (uint i = 0; i < kWeightLoads; ++i) {
        uint row = load_row + i * kStep;
        if (in_tile(row, kStep, kTileOuts)) {
          tiles[kWeightTile + row * kPitch + chunk] = weight_halves(weight_next[i]);
        }
      }
    }
    barrier();
    [[unroll]] for (uint k = 0; k < kInners; ++k) {
      MATRIX_A a[kDown];
      MATRIX_B b[kAcross];
      [[unroll]] for (uint i = 0; i < kDown; ++i) {
        LOAD_A(a[i], tiles, (tile_row + i * kSide) * kPitch + k * (kInner / 8), kPitch);
      }
      [[unroll]] for (uint j = 0; j < kAcross; ++j) {
        if (kInMatrices != 0) {
          SET_B(b[j], ordered[k * kAcross + j]);
        } else {
          uint row = tile_out + j * kSide;
          LOAD_B(b[j], tiles, kWeightTile + row * kPitch + k * (kInner / 8), kPitch);
        }
      }
      // The next block is loaded after the first matrices, which would otherwise wait behind it in
      // the queue of loads. With quantized weights and many rows, half of the rows are loaded one
      // multiplication later. All loads stand in one conditional block: in two, a product takes 1.6
      // times as long on an H100. Instead of a row or column that does not exist the last one is
      // loaded: a condition for each load takes 1 to 2% of an encoder's pass.
      // With weights in the order of matrices, the last step loads columns that it does not need:
      // with a condition, a product takes up to 1.3 times as long on an H200.
      uint next = k0 + kDepth;
      if (kInMatrices != 0 || next < end_column) {
        uint next_column = min(next + chunk * 8, p.n_in - 8);
        [[unroll]] for (uint i = 0; i < kInLoads; ++i) {
          if (k == (kHalfLater ? i * 2 / kInLoads : 0)) {
            in_next[i] = load_halves(in_, in_start[i] + next_column, kInDtype);
          }
        }
        if (kInBlocks) {
          if (k == 0) {
            [[unroll]] for (uint i = 0; i < kBlockLoads; ++i) {
              uint row = block_row + i * kBlockStep;
              block_next[i] = load_tile_block(row, next + block * 32);
              if (kScalesAhead && next % 256 == 0) {
                scales[i] = load_scale_words(scale, weight_row(row), p.n_in, next);
              }
            }
          }
        } else if (k == 0 && kInMatrices == 0) {
          [[unroll]] for (uint i = 0; i < kWeightLoads; ++i) {
            weight_next[i] = load_weight_bits(weight_out[i], next_column, columns);
          }
        }
      }
      if (kInMatrices != 0) {
        uint at = min(next / kInner + k, n_inners - 1);
        [[unroll]] for (uint j = 0; j < kAcross; ++j) {
          LOAD_ORDERED_B(ordered[k * kAcross + j], UVec4Buffer(weight).v, ordered_start[j] + at);
        }
      }
      [[unroll]] for (uint j = 0; j < kAcross; ++j) {
        [[unroll]] for (uint i = 0; i < kDown; ++i) {
          sums[i * kAcross + j] = MULTIPLY_ADD(a[i], b[j], sums[i * kAcross + j]);
        }
      }
    }
    barrier();
  }

  uint tile = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint first_partial = tile * kSplits * kTileVectors;
  if (kSplits > 1) {
    uint at = first_partial + split * kTileVectors + gl_SubgroupID * kMatrices * kMatrixVectors;
    [[unroll]] for (uint n = 0; n < kMatrices; ++n) {
      STORE_SUM(sums[n], partials.v, at + n * kMatrixVectors, kSide / 4);
    }
    memoryBarrierBuffer();
    barrier();
    bool is_last = false;
    if (thread == 0) {
      uint events = atomicAdd(counters.v[tile], kWritten) + kWritten;
      is_last = n_events(events, kWritten) == kSplits;
      next_part = is_last ? kSplits - 1 : take_one(tile, events);
    }
    barrier();
    memoryBarrierBuffer();
    for (uint part = next_part; part < kSplits; part = next_part) {
      add_part(part, first_partial, first_row, first_out, n_sums);
      barrier();
      if (thread == 0) next_part = is_last ? take_another(tile) : kSplits;
      barrier();
    }
    return;
  }

  // kSide rows of the subgroup's sums at a time go through its part of shared memory, and eight
  // outputs of a row at a time are written. The loop is not unrolled: otherwise the compiler keeps
  // `sums` in memory, which is six times slower on an H200.
  uint stage_start = gl_SubgroupID * kSide * kStagePitch;
  uint first_of_subgroup = first_out + tile_out;
  [[dont_unroll]] for (uint i = 0; i < kDown; ++i) {
    [[unroll]] for (uint n = 0; n < kMatrices; ++n) {
      if (n / kAcross == i) {
        STORE_SUM(sums[n], tiles, stage_start + n % kAcross * (kSide / 4), kStagePitch);
      }
    }
    uint row_of_matrix = first_row + tile_row + i * kSide;
    // Outputs without alignment, such as logits of 51,865 tokens, are written one by one: those of
    // successive lanes follow one another.
    const bool kOneByOne = kAlignedOut == 0 && !kGated;
    Residual before[kWrites];
    [[unroll]] for (uint w = 0; w < kWrites; ++w) {
      uint c = w * kLanes + gl_SubgroupInvocationID;
      uint row = row_of_matrix + c / (kSubgroupOuts / 8);
      uint column = first_of_subgroup + c % (kSubgroupOuts / 8) * 8;
      bool exists = row < p.n_rows && column < n_sums;
      before[w] = load_residual(exists ? row : 0, exists ? column : 0);
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    for (uint c = gl_SubgroupInvocationID; kOneByOne && c < kSide * kSubgroupOuts;
         c += gl_SubgroupSize) {
      uint row = c / kSubgroupOuts, column = c % kSubgroupOuts;
      float sum = uintBitsToFloat(tiles[stage_start + row * kStagePitch + column / 4][column % 4]);
      if (row_of_matrix + row < p.n_rows && first_of_subgroup + column < n_sums) {
        finish_output(row_of_matrix + row, first_of_subgroup + column, sum, 0.0);
      }
    }
    [[unroll]] for (uint w = 0; !kOneByOne && w < kWrites; ++w) {
      uint c = w * kLanes + gl_SubgroupInvocationID;
      uint row = c / (kSubgroupOuts / 8), column = c % (kSubgroupOuts / 8) * 8;
      uint from = stage_start + row * kStagePitch + column / 4;
      if (row < kSide && row_of_matrix + row < p.n_rows && first_of_subgroup + column < n_sums) {
        vec4 low = uintBitsToFloat(tiles[from]), high = uintBitsToFloat(tiles[from + 1]);
        finish_outputs(row_of_matrix + row, first_of_subgroup + column, low, high,
                       load_terms(first_of_subgroup + column), before[w]);
      }
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
  }
}

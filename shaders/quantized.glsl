// Quantized weights: rows of small integer codes, and scales for groups of columns (packed by
// llm/vulkan/kernels/block_layout.h). Included after kWeightFormat, the specialization constant that
// describes the layout.
//
// A row of codes has n_in / 32 * bits words, padded to 16 bytes: planes of 4, 2 and 1 bits, or one
// of 8 bits. A word of a plane has 32 / width columns. Four consecutive columns are the four bytes
// of one word after a shift and a mask: with n = 8 / width, columns 4 q to 4 q + 3 are in word q /
// n, from bit q % n * width of each byte. The bytes are columns 0, 2, 1 and 3 of the four, so that
// a mask gives columns 0 and 1, or 2 and 3, in the halves of a word.
//
// A row of scales has (scale, minimum) for each group, or only the scale. They are f16, bf16 or
// f32, or f16 per 256 columns and a signed byte per group that multiplies it. Each of these parts
// is padded to 16 bytes.
#ifndef VESPER_SHADERS_QUANTIZED_GLSL_
#define VESPER_SHADERS_QUANTIZED_GLSL_

const bool kInBlocks = (kWeightFormat & 31u) == 31u;
const uint kCodeBits = kWeightFormat >> 9 & 15u;
const uint kScaleKind = kWeightFormat >> 13 & 3u;  // f16, bf16, f32, parts
const uint kGroup = (kWeightFormat >> 15 & 15u) * 16u;
const uint kScaleKinds = 1u + (kWeightFormat >> 19 & 1u);  // 2: with a minimum
const uint kZero = kWeightFormat >> 20 & 255u;
const uint kGroupBytes = kScaleKinds * (kScaleKind == 3u ? 1u : kScaleKind == 2u ? 4u : 2u);

// Codes of columns k to k + 7 of a row, one byte each. k is a multiple of 8.
uvec2 load_codes(Address weight, uint row, uint n_in, uint k) {
  uint at = row * ((n_in / 32u * kCodeBits + 3u) & ~3u);
  if (kCodeBits == 8u) return UVec2Buffer(weight).v[(at + k / 4u) / 2u];
  uvec2 codes = uvec2(0u);
  if (kCodeBits >= 4u) {
    uint word = U32Buffer(weight).v[at + k / 8u];
    codes = uvec2(word, word >> 4) & 0x0f0f0f0fu;
    at += n_in / 8u;
  }
  if ((kCodeBits & 2u) != 0u) {
    uint word = U32Buffer(weight).v[at + k / 16u] >> (k / 8u % 2u * 4u);
    codes |= (uvec2(word, word >> 2) & 0x03030303u) << (kCodeBits & 4u);
    at += n_in / 16u;
  }
  if ((kCodeBits & 1u) != 0u) {
    uint word = U32Buffer(weight).v[at + k / 32u] >> (k / 8u % 4u * 2u);
    codes |= (uvec2(word, word >> 1) & 0x01010101u) << (kCodeBits & 6u);
  }
  return codes;
}

uint padded_bytes(uint bytes) { return (bytes + 15u) & ~15u; }

// Bytes of the scales of 256 columns in a row of scales. Those of groups follow.
uint whole_scale_bytes(uint n_in) {
  return kScaleKind == 3u ? padded_bytes(n_in / 256u * 2u * kScaleKinds) : 0u;
}

// Where the scales of a row begin, in bytes.
uint scale_row(uint row, uint n_in) {
  return row * (whole_scale_bytes(n_in) + padded_bytes(n_in / kGroup * kGroupBytes));
}

// The f16 scale and minimum of the 256 columns of column k, of a row that begins at `start`.
uint load_whole_scale(Address scales, uint start, uint k) {
  if (kScaleKinds == 2u) return U32Buffer(scales).v[start / 4u + k / 256u];
  return uint(U16Buffer(scales).v[start / 2u + k / 256u]);
}

// The stored scale and minimum of column k. Kernels that load them ahead convert them when they use
// them, because a conversion waits for the load.
uvec2 load_group_bits(Address scales, uint row, uint n_in, uint k) {
  uint start = scale_row(row, n_in), group = k / kGroup;
  if (kScaleKind == 3u) {
    uint whole = load_whole_scale(scales, start, k);
    uint part = start + whole_scale_bytes(n_in) + group * kScaleKinds;
    if (kScaleKinds == 2u) return uvec2(whole, U16Buffer(scales).v[part / 2u]);
    return uvec2(whole, int(I8Buffer(scales).v[part]));
  }
  if (kScaleKind == 2u) return UVec2Buffer(scales).v[start / 8u + group];
  if (kScaleKinds == 2u) return uvec2(U32Buffer(scales).v[start / 4u + group], 0u);
  return uvec2(U16Buffer(scales).v[start / 2u + group], 0u);
}

// A signed byte in the low bits. GPUs convert integers slowly.
float byte_value(uint bits) { return uintBitsToFloat((bits & 255u) ^ 0x4b000080u) - 8388736.0; }

// Scale and minimum: the weight is code_values(code) * x + y.
vec2 group_scale(uvec2 bits) {
  vec2 scale;
  if (kScaleKind == 2u) {
    scale = uintBitsToFloat(bits);
  } else if (kScaleKind == 1u) {
    scale = uintBitsToFloat(uvec2(bits.x << 16, bits.x & 0xffff0000u));
  } else {
    scale = unpackHalf2x16(bits.x);
  }
  if (kScaleKind == 3u) scale *= vec2(byte_value(bits.y), byte_value(bits.y >> 8));
  return kScaleKinds == 2u ? scale : vec2(scale.x, 0.0);
}

vec2 load_group_scale(Address scales, uint row, uint n_in, uint k) {
  return group_scale(load_group_bits(scales, row, n_in, k));
}

// Four codes as floats, minus the zero point. A code in the low bits of 2^23 needs one exact
// subtraction. GPUs convert integers at an eighth of the speed or less.
vec4 code_values(uint codes) {
  uvec4 bits = uvec4(codes & 255u, codes >> 16 & 255u, codes >> 8 & 255u, codes >> 24);
  return uintBitsToFloat(bits | 0x4b000000u) - (8388608.0 + (kScaleKinds == 1u ? float(kZero) : 0.0));
}

// A stored block of 32 columns, and the stored scales of its two halves of 16 columns.
struct CodeBlock {
  uvec4 low, high;
  uvec2 groups[2];
};

// The codes of columns k to k + 31 of a row. k is a multiple of 32.
CodeBlock load_block_codes(Address weight, uint row, uint n_in, uint k) {
  CodeBlock block;
  block.low = block.high = uvec4(0u);
  uint at = row * ((n_in / 32u * kCodeBits + 3u) & ~3u);
  if (kCodeBits == 8u) {
    block.low = UVec4Buffer(weight).v[(at + k / 4u) / 4u];
    block.high = UVec4Buffer(weight).v[(at + k / 4u) / 4u + 1u];
  } else {
    if (kCodeBits >= 4u) {
      block.low = UVec4Buffer(weight).v[(at + k / 8u) / 4u];
      at += n_in / 8u;
    }
    if ((kCodeBits & 2u) != 0u) {
      block.high.xy = UVec2Buffer(weight).v[(at + k / 16u) / 2u];
      at += n_in / 16u;
    }
    if ((kCodeBits & 1u) != 0u) block.high.z = U32Buffer(weight).v[at + k / 32u];
  }
  return block;
}

// The same with their scales.
CodeBlock load_block(Address weight, Address scales, uint row, uint n_in, uint k) {
  CodeBlock block = load_block_codes(weight, row, n_in, k);
  block.groups[0] = load_group_bits(scales, row, n_in, k);
  block.groups[1] = kGroup == 16u ? load_group_bits(scales, row, n_in, k + 16u) : block.groups[0];
  return block;
}

// If 64 columns have four bytes of scales, those of 256 columns are one load.
const bool kHasScaleWords = 16u * kGroupBytes == kGroup;
struct ScaleWords {
  uvec4 words;  // each has the scales of 64 columns
  uint whole;   // if scales are in parts: the f16 scale and minimum of the 256 columns
};

// The scales of the 256 columns of column k of a row.
ScaleWords load_scale_words(Address scales, uint row, uint n_in, uint k) {
  uint start = scale_row(row, n_in);
  uint whole = kScaleKind == 3u ? load_whole_scale(scales, start, k) : 0u;
  uint first = (start + whole_scale_bytes(n_in)) / 16u;
  return ScaleWords(UVec4Buffer(scales).v[first + k / 256u], whole);
}

// The scales of a block of 32 columns: of the 64 columns of the first word, the first block (`which`
// is 0) or the second (1).
uvec2[2] first_word_groups(ScaleWords scales, uint which) {
  uint bits = kGroup == 64u || which == 0u ? scales.words.x : scales.words.x >> 16;
  if (kScaleKind != 3u) return uvec2[2](uvec2(bits, 0u), uvec2(bits, 0u));
  return uvec2[2](uvec2(scales.whole, bits),
                  uvec2(scales.whole, kGroup == 16u ? bits >> 8 : bits));
}

// Codes 8 i to 8 i + 7 of a block, one byte each.
uvec2 block_codes(CodeBlock block, uint i) {
  if (kCodeBits == 8u) {
    uvec4 codes = i < 2u ? block.low : block.high;
    return i % 2u == 0u ? codes.xy : codes.zw;
  }
  uvec2 codes = uvec2(0u);
  if (kCodeBits >= 4u) codes = uvec2(block.low[i], block.low[i] >> 4) & 0x0f0f0f0fu;
  if ((kCodeBits & 2u) != 0u) {
    uint word = block.high[i / 2u] >> (i % 2u * 4u);
    codes |= (uvec2(word, word >> 2) & 0x03030303u) << (kCodeBits & 4u);
  }
  if ((kCodeBits & 1u) != 0u) {
    uint word = block.high.z >> (i * 2u);
    codes |= (uvec2(word, word >> 1) & 0x01010101u) << (kCodeBits & 6u);
  }
  return codes;
}

#endif

// Quantized weights: a row's codes, which are small whole numbers, beside scales that groups of its
// columns share (llm/vulkan/block_layout.h packs them). Included after kWeightFormat, the
// specialization constant that says how; what a format does not have falls away with it.
//
// A row of codes has n_in / 32 * bits words, padded to 16 bytes: planes of 4, 2 and 1 bits (or one
// of 8), each of 32 / width columns a word. Four neighbouring columns, a quad, are the bytes of one
// word, after a shift and a mask: quad q of a plane is in word q / n, n = 8 / width, from bit
// q % n * width of each byte on.
//
// A row of scales has (scale, minimum) for each group, or the scale alone where there is no
// minimum: in f16, bf16 or f32; or f16 for 256 columns each, then signed bytes for each group that
// multiply them, padded to 4 bytes.
#ifndef VESPER_SHADERS_QUANTIZED_GLSL_
#define VESPER_SHADERS_QUANTIZED_GLSL_

const bool kInBlocks = (kWeightFormat & 31u) == 31u;
const uint kCodeBits = kWeightFormat >> 9 & 15u;
const uint kScaleKind = kWeightFormat >> 13 & 3u;  // f16, bf16, f32, parts
const uint kGroup = (kWeightFormat >> 15 & 15u) * 16u;
const uint kScaleKinds = 1u + (kWeightFormat >> 19 & 1u);  // 2: with a minimum
const uint kZero = kWeightFormat >> 20 & 255u;

// The codes of columns k .. k + 7 of a row, a byte each; k is a multiple of 8.
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

// Scale and minimum (the value of code 0) of column k of a row.
vec2 load_group_scale(Address scales, uint row, uint n_in, uint k) {
  uint group = k / kGroup;
  if (kScaleKind == 3u) {
    uint halves = n_in / 256u * kScaleKinds;
    uint bytes = (2u * halves + n_in / kGroup * kScaleKinds + 3u) & ~3u;
    uint at = row * bytes;
    uint whole = at / 2u + k / 256u * kScaleKinds;
    uint part = at + 2u * halves + group * kScaleKinds;
    float scale = float(F16Buffer(scales).v[whole]) * float(int(I8Buffer(scales).v[part]));
    if (kScaleKinds == 1u) return vec2(scale, -scale * float(kZero));
    return vec2(scale,
                float(F16Buffer(scales).v[whole + 1u]) * float(int(I8Buffer(scales).v[part + 1u])));
  }
  uint at = row * (n_in / kGroup) + group;
  if (kScaleKind == 2u) return vec2(F32Buffer(scales).v[2u * at], F32Buffer(scales).v[2u * at + 1u]);
  if (kScaleKind == 1u) {
    uint both = U32Buffer(scales).v[at];
    return vec2(uintBitsToFloat(both << 16), uintBitsToFloat(both & 0xffff0000u));
  }
  if (kScaleKinds == 2u) return unpackHalf2x16(U32Buffer(scales).v[at]);
  float scale = float(F16Buffer(scales).v[at]);
  return vec2(scale, -scale * float(kZero));
}

// Four codes as numbers.
vec4 code_values(uint codes) {
  return vec4(codes & 255u, codes >> 8 & 255u, codes >> 16 & 255u, codes >> 24);
}

#endif

// Rows of keys and values in pages (kernel_params.h): loads and stores in any format. `head` is the
// index of a head's part of a page: page * n_kv_heads + kv_head.
#ifndef VESPER_SHADERS_KV_PAGES_GLSL_
#define VESPER_SHADERS_KV_PAGES_GLSL_

#extension GL_KHR_shader_subgroup_shuffle : require
#include "buffers.glsl"

// Where a head's part of a page starts, in words.
uint kv_head_word(uint dtype, uint head, uint page_rows, uint head_dim) {
  return head * (kv_head_bytes(dtype, page_rows, head_dim) / 4);
}

// Index of a block's scale in f16.
uint kv_scale_index(uint dtype, uint head, uint row, uint page_rows, uint head_dim, uint d) {
  return kv_head_word(dtype, head, page_rows, head_dim) * 2 +
         (page_rows * kv_row_bytes(dtype, head_dim) + row * kv_scale_bytes(dtype, head_dim)) / 2 +
         kv_row_scales(dtype, d);
}

// Eight elements as they are stored: f16, f32 (the last four in `high`), or codes and their scale.
struct Kv8 {
  uvec4 low, high;
  float scale;
};

// Loads elements d to d + 7 of a row. d is a multiple of 8.
Kv8 load_kv8(Address pages, uint dtype, uint head, uint row, uint page_rows, uint head_dim, uint d) {
  Kv8 x;
  if (kv_is_quantized(dtype)) {
    uint codes = kv_head_word(dtype, head, page_rows, head_dim) +
                 row * (kv_row_bytes(dtype, head_dim) / 4);
    uint at = dtype == kDTypeQ8_0 ? d / 4 : d / 32 * 4 + d % 16 / 4;
    x.low.xy = UVec2Buffer(pages).v[(codes + at) / 2];
    x.scale = float(F16Buffer(pages).v[kv_scale_index(dtype, head, row, page_rows, head_dim, d)]);
  } else {
    uint i = (head * page_rows + row) * head_dim + d;
    x.low = UVec4Buffer(pages).v[dtype == kDTypeF16 ? i / 8 : i / 4];
    if (dtype == kDTypeF32) x.high = UVec4Buffer(pages).v[i / 4 + 1];
  }
  return x;
}

// The values of loaded elements d to d + 7.
void kv8_values(Kv8 x, uint dtype, uint d, out vec4 low, out vec4 high) {
  if (dtype == kDTypeF16) {
    low = unpack_half4(x.low.xy);
    high = unpack_half4(x.low.zw);
  } else if (dtype == kDTypeF32) {
    low = uintBitsToFloat(x.low);
    high = uintBitsToFloat(x.high);
  } else if (dtype == kDTypeQ8_0) {
    low = unpack_bytes(x.low.x) * x.scale;
    high = unpack_bytes(x.low.y) * x.scale;
  } else {
    uvec2 codes = x.low.xy >> (d % 32 / 16 * 4) & 0x0f0f0f0fu;
    low = (unpack_bytes(codes.x) - 8.0) * x.scale;
    high = (unpack_bytes(codes.y) - 8.0) * x.scale;
  }
}

// Stores elements d to d + 7 of a row of f32 or f16. d is a multiple of 8.
void store_kv8(Address pages, uint dtype, uint head, uint row, uint page_rows, uint head_dim, uint d,
               vec4 low, vec4 high) {
  uint i = (head * page_rows + row) * head_dim + d;
  if (dtype == kDTypeF16) {
    UVec4Buffer(pages).v[i / 8] = uvec4(pack_half4(low), pack_half4(high));
  } else {
    Vec4Buffer(pages).v[i / 4] = low;
    Vec4Buffer(pages).v[i / 4 + 1] = high;
  }
}

// The value of finite f16 bits, by integers: drivers may fold unpackHalf2x16(packHalf2x16(x))
// to x (NVIDIA 580 does), and then codes are not relative to the stored scale.
float half_value(uint bits) {
  uint exponent = bits >> 10 & 31u, fraction = bits & 1023u;
  float size = exponent == 0u ? float(fraction) * (1.0 / 16777216.0)
                              : uintBitsToFloat((exponent + 112u) << 23 | fraction << 13);
  return (bits & 0x8000u) != 0u ? -size : size;
}

// Rounds x * inverse to even, within the limits.
ivec4 kv_codes(vec4 x, float inverse, int least, int most) {
  return clamp(ivec4(roundEven(x * inverse)), ivec4(least), ivec4(most));
}

// Quantizes and stores elements d to d + 3 of a row. Eight lanes, from a multiple of eight on, store
// 32 elements, in order. Codes are relative to the rounded scale.
void store_quantized_kv4(Address pages, uint dtype, uint head, uint row, uint page_rows,
                         uint head_dim, uint d, vec4 x) {
  float low = min(min(x.x, x.y), min(x.z, x.w)), high = max(max(x.x, x.y), max(x.z, x.w));
  for (uint step = 1; step < kv_block(dtype) / 4; step *= 2) {
    low = min(low, subgroupShuffleXor(low, step));
    high = max(high, subgroupShuffleXor(high, step));
  }
  // 8 bits: the largest magnitude has the code 127 or -127. 4 bits: its code is -8, stored as 0.
  float exact = dtype == kDTypeQ8_0 ? max(-low, high) / 127.0 : (-low > high ? low : high) / -8.0;
  float scale = half_value(packHalf2x16(vec2(exact, 0.0)));
  float inverse = scale == 0.0 ? 0.0 : 1.0 / scale;
  uint at = kv_head_word(dtype, head, page_rows, head_dim) +
            row * (kv_row_bytes(dtype, head_dim) / 4);
  if (dtype == kDTypeQ8_0) {
    uvec4 bytes = uvec4(kv_codes(x, inverse, -127, 127)) & 255u;
    U32Buffer(pages).v[at + d / 4] = bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
  } else {
    uvec4 bytes = uvec4(kv_codes(x, inverse, -8, 7) + 8);
    uint codes = bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
    uint other = subgroupShuffleXor(codes, 4);
    if (d % 32 < 16) U32Buffer(pages).v[at + d / 32 * 4 + d % 16 / 4] = codes | other << 4;
  }
  if (d % kv_block(dtype) == 0) {
    F16Buffer(pages).v[kv_scale_index(dtype, head, row, page_rows, head_dim, d)] = float16_t(scale);
  }
}

#endif

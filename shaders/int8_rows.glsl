// Rows of int8: blocks of 32 columns with a scale of greatest / 127, rounded to even, as llm/cpu
// has them.
//
// In memory, n rows of d columns are the codes, int8 [n, d], then two words per block, [n, d / 32]:
// the scale, f32, and the sums of the codes of its first and second half, 16 bits each. Of four
// columns, the second and third are exchanged, as in quantized weights (quantized.glsl).
#ifndef VESPER_SHADERS_INT8_ROWS_GLSL_
#define VESPER_SHADERS_INT8_ROWS_GLSL_

#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "buffers.glsl"

// OpSUDot: the sum of four products of a signed and an unsigned byte. The last operand is the
// format, PackedVectorFormat4x8Bit.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019],
                  id = 4452) int dot_bytes(uint signed_bytes, uint bytes, spirv_literal int format);

struct Int8Quad {
  uint codes;   // of this lane's four columns
  int total;    // sum of the codes of this lane's half of the block
  float scale;  // of the block
};

// Quantizes four columns. Eight lanes, from a multiple of eight on, share a block, in order.
Int8Quad quantize(vec4 x) {
  vec4 size = abs(x);
  float greatest = max(max(size.x, size.y), max(size.z, size.w));
  greatest = max(greatest, subgroupShuffleXor(greatest, 1));
  greatest = max(greatest, subgroupShuffleXor(greatest, 2));
  greatest = max(greatest, subgroupShuffleXor(greatest, 4));
  // The low byte of x + 1.5 * 2^23 is x, rounded to even, in two's complement.
  vec4 rounded = x * (greatest == 0.0 ? 0.0 : 127.0 / greatest) + 12582912.0;
  uvec4 bytes = floatBitsToUint(rounded) & 255u;
  uint codes = bytes.x | bytes.z << 8 | bytes.y << 16 | bytes.w << 24;
  int total = dot_bytes(codes, 0x01010101u, 0);
  total += subgroupShuffleXor(total, 1);
  total += subgroupShuffleXor(total, 2);
  return Int8Quad(codes, total, greatest / 127.0);
}

// Stores four columns from element `at`, a multiple of 4, of a matrix of n elements.
void store_int8(Address out_, uint n, uint at, vec4 x) {
  Int8Quad quad = quantize(x);
  uint second = uint(subgroupShuffleXor(quad.total, 4));
  U32Buffer(out_).v[at / 4] = quad.codes;
  if (at % 32 == 0) {
    uvec2 block = uvec2(floatBitsToUint(quad.scale), uint(quad.total) & 0xffffu | second << 16);
    UVec2Buffer(out_).v[n / 8 + at / 32] = block;
  }
}

#endif

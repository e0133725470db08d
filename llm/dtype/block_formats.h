// The quantized formats, a function each: it takes one block apart, as the row of the format in
// kDTypes (llm/dtype/dtype.cc) names it. Blocks need not be aligned.
//
// Fields in the order of the file, little-endian; d, min and dmin are f16, q is a code.
//
// Blocks of 32 elements. Byte j of 16 `nibbles` holds element j (low) and element j + 16 (high);
// bit i of `high` is the fifth bit of element i:
//   q4_0    d, nibbles                   x = d * (q - 8)
//   q4_1    d, min, nibbles              x = d * q + min
//   q5_0    d, high u32, nibbles         x = d * (q - 16)
//   q5_1    d, min, high u32, nibbles    x = d * q + min
//   q8_0    d, i8 [32]                   x = d * i8
//   iq4_nl  d, nibbles                   x = d * (the value that q stands for)
//   affineN N bits a code in one stream, the lowest bits first; scales and biases lie elsewhere
//
// Blocks of 256 elements, with small scales for parts of a block that are quantized themselves:
//   q2_k    scales [16], qs [64], d, dmin
//           x = d * (scale & 15) * q - dmin * (scale >> 4), 16 elements a scale
//   q3_k    hmask [32], qs [64], scales [12], d
//           x = d * (scale - 32) * (q - 4), 16 elements a scale of 6 bits
//   q4_k    d, dmin, scales [12], qs [128]
//   q5_k    d, dmin, scales [12], qh [32], qs [128]
//           x = d * scale * q - dmin * min, 32 elements a scale and a min of 6 bits each
//   q6_k    ql [128], qh [64], scales i8 [16], d
//           x = d * scale * (q - 32), 16 elements a scale
#pragma once

#include <cstdint>

#include "llm/dtype/dtype.h"

namespace vesper {

void unpack_q4_0(const uint8_t* block, const UnpackedBlock& to);
void unpack_q4_1(const uint8_t* block, const UnpackedBlock& to);
void unpack_q5_0(const uint8_t* block, const UnpackedBlock& to);
void unpack_q5_1(const uint8_t* block, const UnpackedBlock& to);
void unpack_q8_0(const uint8_t* block, const UnpackedBlock& to);
void unpack_iq4_nl(const uint8_t* block, const UnpackedBlock& to);
void unpack_q2_k(const uint8_t* block, const UnpackedBlock& to);
void unpack_q3_k(const uint8_t* block, const UnpackedBlock& to);
void unpack_q4_k(const uint8_t* block, const UnpackedBlock& to);
void unpack_q5_k(const uint8_t* block, const UnpackedBlock& to);
void unpack_q6_k(const uint8_t* block, const UnpackedBlock& to);
// 32 codes of kBits each: 2, 3, 4, 5, 6 or 8.
template <uint32_t kBits>
void unpack_affine(const uint8_t* block, const UnpackedBlock& to) {
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t bit = i * kBits;
    uint32_t value = block[bit / 8];
    if (bit % 8 + kBits > 8) value |= uint32_t{block[bit / 8 + 1]} << 8;
    to.codes[i] = static_cast<uint8_t>(value >> bit % 8 & ((1u << kBits) - 1));
  }
}

}  // namespace vesper

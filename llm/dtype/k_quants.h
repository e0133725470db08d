// The K-quants: formats of 256 elements a block, with small scales for parts of a block that are
// quantized themselves. One function a format, for its row of the table (llm/dtype/dtype.h): `n`
// elements, a multiple of 256, from unaligned blocks to f32.
//
// Layouts, element j of 256 (fields in the order of the file, all little-endian):
//   q2_k   84 bytes: scales[16], qs[64], d f16, dmin f16
//          x = d * (scale & 15) * q - dmin * (scale >> 4), 16 elements a scale
//   q3_k  110 bytes: hmask[32], qs[64], scales[12], d f16
//          x = d * (scale - 32) * (q - 4), 16 elements a scale of 6 bits
//   q4_k  144 bytes: d f16, dmin f16, scales[12], qs[128]
//   q5_k  176 bytes: d f16, dmin f16, scales[12], qh[32], qs[128]
//          x = d * scale * q - dmin * min, 32 elements a scale and a min of 6 bits each
//   q6_k  210 bytes: ql[128], qh[64], scales i8[16], d f16
//          x = d * scale * (q - 32), 16 elements a scale
#pragma once

#include <cstdint>

namespace vesper {

inline constexpr uint32_t kKQuantBlock = 256;  // elements

// What the codes of iq4_nl stand for (a fact of the format: ggml-common.h, kvalues_iq4nl).
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

void q2_k_to_f32(const void* source, float* out, uint64_t n);
void q3_k_to_f32(const void* source, float* out, uint64_t n);
void q4_k_to_f32(const void* source, float* out, uint64_t n);
void q5_k_to_f32(const void* source, float* out, uint64_t n);
void q6_k_to_f32(const void* source, float* out, uint64_t n);

}  // namespace vesper

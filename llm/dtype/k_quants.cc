#include "llm/dtype/k_quants.h"

#include <cstring>

#include "llm/dtype/half.h"

namespace vesper {
namespace {

float half_at(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return f16_bits_to_f32(bits);
}

// The 6-bit scale and min of part `k` of 8, from the 12 bytes that q4_k and q5_k share: the first
// four pairs lie whole in the low bits of bytes 0-3 and 4-7; the last four have their low bits in
// bytes 8-11 and their high bits above the first four.
struct ScaleAndMin {
  int scale, min;
};
ScaleAndMin scale_and_min(const uint8_t* packed, uint32_t k) {
  if (k < 4) return {packed[k] & 63, packed[k + 4] & 63};
  return {(packed[k + 4] & 15) | ((packed[k - 4] >> 6) << 4),
          (packed[k + 4] >> 4) | ((packed[k] >> 6) << 4)};
}

// The 6-bit scale of part `k` of 16 of q3_k, still 32 too large.
int q3_k_scale(const uint8_t* packed, uint32_t k) {
  const int low = (packed[k % 8] >> (4 * (k / 8))) & 15;
  const int high = (packed[8 + k % 4] >> (2 * (k / 4))) & 3;
  return low | (high << 4);
}

}  // namespace

void q2_k_to_f32(const void* source, float* out, uint64_t n) {
  const auto* block = static_cast<const uint8_t*>(source);
  for (uint64_t i = 0; i < n; i += kKQuantBlock, block += 84, out += kKQuantBlock) {
    const uint8_t* qs = block + 16;
    const float d = half_at(block + 80), dmin = half_at(block + 82);
    for (uint32_t k = 0; k < 16; ++k) {
      // Part k holds elements 16k..16k+15; the four runs of 32 of a half share their bytes.
      const float scale = d * static_cast<float>(block[k] & 15);
      const float min = dmin * static_cast<float>(block[k] >> 4);
      const uint8_t* from = qs + 32 * (k / 8) + 16 * (k % 2);
      const uint32_t shift = 2 * (k % 8 / 2);
      for (uint32_t l = 0; l < 16; ++l) {
        out[16 * k + l] = scale * static_cast<float>((from[l] >> shift) & 3) - min;
      }
    }
  }
}

void q3_k_to_f32(const void* source, float* out, uint64_t n) {
  const auto* block = static_cast<const uint8_t*>(source);
  for (uint64_t i = 0; i < n; i += kKQuantBlock, block += 110, out += kKQuantBlock) {
    const uint8_t* qs = block + 32;
    const uint8_t* scales = block + 96;
    const float d = half_at(block + 108);
    for (uint32_t k = 0; k < 16; ++k) {
      const float scale = d * static_cast<float>(q3_k_scale(scales, k) - 32);
      const uint8_t* from = qs + 32 * (k / 8) + 16 * (k % 2);
      const uint8_t* high = block + 16 * (k % 2);  // bit k / 2 of each byte
      const uint32_t shift = 2 * (k % 8 / 2);
      for (uint32_t l = 0; l < 16; ++l) {
        const int q = ((from[l] >> shift) & 3) | (((high[l] >> (k / 2)) & 1) << 2);
        out[16 * k + l] = scale * static_cast<float>(q - 4);
      }
    }
  }
}

void q4_k_to_f32(const void* source, float* out, uint64_t n) {
  const auto* block = static_cast<const uint8_t*>(source);
  for (uint64_t i = 0; i < n; i += kKQuantBlock, block += 144, out += kKQuantBlock) {
    const float d = half_at(block), dmin = half_at(block + 2);
    for (uint32_t k = 0; k < 8; ++k) {
      const auto [scale, min] = scale_and_min(block + 4, k);
      const float factor = d * static_cast<float>(scale), offset = dmin * static_cast<float>(min);
      const uint8_t* from = block + 16 + 32 * (k / 2);
      const uint32_t shift = 4 * (k % 2);
      for (uint32_t l = 0; l < 32; ++l) {
        out[32 * k + l] = factor * static_cast<float>((from[l] >> shift) & 15) - offset;
      }
    }
  }
}

void q5_k_to_f32(const void* source, float* out, uint64_t n) {
  const auto* block = static_cast<const uint8_t*>(source);
  for (uint64_t i = 0; i < n; i += kKQuantBlock, block += 176, out += kKQuantBlock) {
    const float d = half_at(block), dmin = half_at(block + 2);
    const uint8_t* high = block + 16;  // bit k of byte l: the fifth bit of element 32k + l
    for (uint32_t k = 0; k < 8; ++k) {
      const auto [scale, min] = scale_and_min(block + 4, k);
      const float factor = d * static_cast<float>(scale), offset = dmin * static_cast<float>(min);
      const uint8_t* from = block + 48 + 32 * (k / 2);
      const uint32_t shift = 4 * (k % 2);
      for (uint32_t l = 0; l < 32; ++l) {
        const int q = ((from[l] >> shift) & 15) | (((high[l] >> k) & 1) << 4);
        out[32 * k + l] = factor * static_cast<float>(q) - offset;
      }
    }
  }
}

void q6_k_to_f32(const void* source, float* out, uint64_t n) {
  const auto* block = static_cast<const uint8_t*>(source);
  for (uint64_t i = 0; i < n; i += kKQuantBlock, block += 210, out += kKQuantBlock) {
    const float d = half_at(block + 208);
    for (uint32_t k = 0; k < 8; ++k) {
      // Run k holds elements 32k..32k+31; runs k and k + 2 of a half share their low bytes.
      const uint8_t* low = block + 64 * (k / 4) + 32 * (k % 2);
      const uint8_t* high = block + 128 + 32 * (k / 4);
      const uint32_t low_shift = 4 * (k % 4 / 2), high_shift = 2 * (k % 4);
      for (uint32_t l = 0; l < 32; ++l) {
        const auto scale = static_cast<int8_t>(block[192 + 2 * k + l / 16]);
        const int q = ((low[l] >> low_shift) & 15) | (((high[l] >> high_shift) & 3) << 4);
        out[32 * k + l] = d * static_cast<float>(scale) * static_cast<float>(q - 32);
      }
    }
  }
}

}  // namespace vesper

// Conversion of single numbers between f32 and 16-bit formats, rounded to nearest even.
// llm/cpu/numbers-inl.h converts vectors.
#pragma once

#include <bit>
#include <cstdint>

namespace vesper {

inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

inline uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Half of 2^(exponent - 127), an E8M0 scale, as bits of a bf16: exact, also where it is subnormal.
inline uint16_t bf16_of_half_e8m0(uint8_t exponent) {
  if (exponent < 2) return static_cast<uint16_t>(0x20u << exponent);
  return static_cast<uint16_t>((exponent - 1u) << 7);
}

inline float f16_to_f32(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | magnitude << 13);
  // Multiplication corrects the exponent and normalizes subnormals.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | sign);
}

inline uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to 2^16 or more: infinity
  if (magnitude < 0x38800000) {
    // Below 2^-14: adding 1/2 leaves the f16 subnormal, rounded, in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t rebiased = magnitude - 0x38000000;
  return static_cast<uint16_t>(sign | (rebiased + 0xfff + (rebiased >> 13 & 1)) >> 13);
}

}  // namespace vesper

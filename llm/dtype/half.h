// IEEE 754 half precision numbers as bits, where no instruction or type for them is at hand.
#pragma once

#include <bit>
#include <cstdint>

namespace vesper {

// Without branches on the exponent: it is moved by a multiplication, which also normalises
// subnormals; infinities and NaN are patched in.
inline float f16_bits_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fffu) << 13;
  uint32_t bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  if ((half & 0x7c00u) == 0x7c00u) bits |= 0x7f800000u;
  return std::bit_cast<float>(bits | sign);
}

}  // namespace vesper

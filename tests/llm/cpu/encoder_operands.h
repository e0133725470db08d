// Random operands for tests of the encoder's kernels, in all formats of activations.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "shaders/kernel_params.h"

namespace vesper {

inline size_t dtype_size(uint32_t dtype) { return dtype == kDTypeF32 ? 4 : 2; }

// Values as a buffer holds them.
struct Buffer {
  uint32_t dtype = kDTypeF32;
  std::vector<uint8_t> bytes;

  Buffer(uint32_t type, size_t n) : dtype(type), bytes(n * dtype_size(type)) {}
  size_t size() const { return bytes.size() / dtype_size(dtype); }

  double at(size_t i) const {
    const uint8_t* from = bytes.data() + i * dtype_size(dtype);
    if (dtype == kDTypeF16) {
      uint16_t half;
      std::memcpy(&half, from, sizeof(half));
      const int exponent = half >> 10 & 31, fraction = half & 1023;
      const double size = exponent == 31  ? std::numeric_limits<double>::quiet_NaN()
                          : exponent == 0 ? std::ldexp(fraction, -24)
                                          : std::ldexp(1024 + fraction, exponent - 25);
      return half >> 15 ? -size : size;
    }
    uint32_t bits = 0;
    if (dtype == kDTypeF32) {
      std::memcpy(&bits, from, 4);
    } else {
      uint16_t high;
      std::memcpy(&high, from, 2);
      bits = uint32_t{high} << 16;
    }
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
  std::vector<double> values() const {
    std::vector<double> all(size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = at(i);
    return all;
  }
  void set(size_t i, float value) {
    uint8_t* to = bytes.data() + i * dtype_size(dtype);
    if (dtype == kDTypeF16) {
      // Normal numbers only; smaller ones become 0.
      const int exponent = value == 0.0f ? -20 : std::ilogb(value);
      uint16_t half = 0;
      if (exponent >= -14) {
        const int fraction =
            static_cast<int>(std::lrint(std::ldexp(std::abs(value), 10 - exponent)));
        half = static_cast<uint16_t>(((exponent + 14) << 10) + fraction);  // 2048 carries over
      }
      if (value < 0) half |= 0x8000;
      std::memcpy(to, &half, 2);
    } else if (dtype == kDTypeF32) {
      std::memcpy(to, &value, 4);
    } else {
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      const uint16_t high = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
      std::memcpy(to, &high, 2);
    }
  }
  // All elements NaN.
  void fill_nan() { std::fill(bytes.begin(), bytes.end(), uint8_t{0xFF}); }
  void fill_random(std::mt19937& random, float scale = 1.0f) {
    std::normal_distribution<float> normal(0.0f, scale);
    for (size_t i = 0; i < size(); ++i) set(i, normal(random));
  }
};

// Relative rounding error of the format.
inline double rounding_of(uint32_t dtype) {
  return dtype == kDTypeF32 ? 6e-8 : dtype == kDTypeF16 ? 1.0 / 2048 : 1.0 / 256;
}

}  // namespace vesper

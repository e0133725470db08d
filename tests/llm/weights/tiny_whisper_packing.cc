// Converts values to file formats.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::test {
namespace {

template <typename T>
void append(std::vector<uint8_t>& out, T value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

uint16_t bf16_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The 32 integers of a block as nibbles: byte j holds numbers j and j + 16.
void append_nibbles(std::vector<uint8_t>& out, const int* q) {
  for (int j = 0; j < 16; ++j) {
    out.push_back(static_cast<uint8_t>((q[j] & 15) | (q[j + 16] & 15) << 4));
  }
}

void append_fifth_bits(std::vector<uint8_t>& out, const int* q) {
  uint32_t bits = 0;
  for (int j = 0; j < 32; ++j) bits |= static_cast<uint32_t>(q[j] >> 4 & 1) << j;
  append(out, bits);
}

// Formats without a minimum: the value of largest magnitude becomes the lowest level.
void append_symmetric(std::vector<uint8_t>& out, const float* x, int n_bits) {
  const float extreme =
      *std::max_element(x, x + 32, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const int half = 1 << (n_bits - 1);
  const float d = extreme / static_cast<float>(-half);
  const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
  int q[32];
  for (int j = 0; j < 32; ++j) {
    q[j] =
        std::min(2 * half - 1, static_cast<int>(x[j] * inverse + static_cast<float>(half) + 0.5f));
  }
  append(out, f16_of(d));
  if (n_bits == 5) append_fifth_bits(out, q);
  append_nibbles(out, q);
}

void append_with_minimum(std::vector<uint8_t>& out, const float* x, int n_bits) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float d = (*high - *low) / static_cast<float>((1 << n_bits) - 1);
  const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
  int q[32];
  for (int j = 0; j < 32; ++j) q[j] = static_cast<int>((x[j] - *low) * inverse + 0.5f);
  append(out, f16_of(d));
  append(out, f16_of(*low));
  if (n_bits == 5) append_fifth_bits(out, q);
  append_nibbles(out, q);
}

void append_q8_0(std::vector<uint8_t>& out, const float* x) {
  float extreme = 0.0f;
  for (int j = 0; j < 32; ++j) extreme = std::max(extreme, std::fabs(x[j]));
  const float d = extreme / 127.0f;
  append(out, f16_of(d));
  for (int j = 0; j < 32; ++j) {
    append(out, static_cast<int8_t>(d == 0.0f ? 0.0f : std::round(x[j] / d)));
  }
}

}  // namespace

uint16_t f16_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x1p-14f) {  // subnormal: an integer multiple of 2^-24
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f)));
  }
  const uint32_t rounded = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112 << 10)));
}

std::vector<uint8_t> packed(DType dtype, const std::vector<float>& values, uint64_t row_size,
                            std::vector<float>* scales) {
  std::vector<uint8_t> out;
  if (dtype == DType::kF32) {
    out.resize(values.size() * sizeof(float));
    std::memcpy(out.data(), values.data(), out.size());
  } else if (dtype == DType::kF16 || dtype == DType::kBF16) {
    for (const float value : values)
      append(out, dtype == DType::kF16 ? f16_of(value) : bf16_of(value));
  } else if (dtype == DType::kI8) {
    for (size_t row = 0; row < values.size(); row += row_size) {
      float extreme = 0.0f;
      for (size_t i = row; i < row + row_size; ++i)
        extreme = std::max(extreme, std::fabs(values[i]));
      const float scale = extreme == 0.0f ? 1.0f : 127.0f / extreme;
      scales->push_back(scale);
      for (size_t i = row; i < row + row_size; ++i) {
        append(out, static_cast<int8_t>(std::nearbyint(values[i] * scale)));
      }
    }
  } else {
    if (row_size % 32 != 0) throw std::logic_error("rows must be a multiple of 32 long");
    for (size_t i = 0; i < values.size(); i += 32) {
      const float* x = values.data() + i;
      switch (dtype) {
        case DType::kQ4_0:
          append_symmetric(out, x, 4);
          break;
        case DType::kQ4_1:
          append_with_minimum(out, x, 4);
          break;
        case DType::kQ5_0:
          append_symmetric(out, x, 5);
          break;
        case DType::kQ5_1:
          append_with_minimum(out, x, 5);
          break;
        case DType::kQ8_0:
          append_q8_0(out, x);
          break;
        default:
          throw std::logic_error("no weights are stored in this format");
      }
    }
  }
  return out;
}

}  // namespace vesper::test

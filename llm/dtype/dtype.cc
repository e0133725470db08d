#include "llm/dtype/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "error/error.h"
#include "llm/dtype/half.h"
#include "llm/dtype/k_quants.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vesper {
namespace {

template <typename T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void f32_to_f32(const void* source, float* out, uint64_t n) {
  // A tensor without elements has no memory, which memcpy does not allow.
  if (n != 0) std::memcpy(out, source, n * sizeof(float));
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) void f16_to_f32_f16c(const uint8_t* source, float* out,
                                                         uint64_t n) {
  uint64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + 2 * i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
  for (; i < n; ++i) out[i] = f16_bits_to_f32(load<uint16_t>(source + 2 * i));
}
#endif

void f16_to_f32(const void* source, float* out, uint64_t n) {
  const auto* from = static_cast<const uint8_t*>(source);
#if defined(__x86_64__)
  static const bool has_f16c = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  if (has_f16c) return f16_to_f32_f16c(from, out, n);
#endif
  for (uint64_t i = 0; i < n; ++i) out[i] = f16_bits_to_f32(load<uint16_t>(from + 2 * i));
}

void bf16_to_f32(const void* source, float* out, uint64_t n) {
  const auto* from = static_cast<const uint8_t*>(source);
  for (uint64_t i = 0; i < n; ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(from + 2 * i)) << 16);
  }
}

constexpr uint64_t kBlock = 32;  // elements a block of every format below

// Byte j of a block's 16 nibble bytes holds element j (low) and element j + 16 (high).
void q4_0_to_f32(const void* source, float* out, uint64_t n) {
  const auto* block = static_cast<const uint8_t*>(source);  // d f16, 16 nibble bytes
  for (uint64_t i = 0; i < n; i += kBlock, block += 18, out += kBlock) {
    const float d = f16_bits_to_f32(load<uint16_t>(block));
    for (int j = 0; j < 16; ++j) {
      out[j] = d * static_cast<float>((block[2 + j] & 15) - 8);
      out[j + 16] = d * static_cast<float>((block[2 + j] >> 4) - 8);
    }
  }
}

void q4_1_to_f32(const void* source, float* out, uint64_t n) {
  const auto* block = static_cast<const uint8_t*>(source);  // d f16, min f16, 16 nibble bytes
  for (uint64_t i = 0; i < n; i += kBlock, block += 20, out += kBlock) {
    const float d = f16_bits_to_f32(load<uint16_t>(block));
    const float min = f16_bits_to_f32(load<uint16_t>(block + 2));
    for (int j = 0; j < 16; ++j) {
      out[j] = d * static_cast<float>(block[4 + j] & 15) + min;
      out[j + 16] = d * static_cast<float>(block[4 + j] >> 4) + min;
    }
  }
}

// Bit i of the u32 `high` is the fifth bit of element i.
void q5_0_to_f32(const void* source, float* out, uint64_t n) {
  const auto* block = static_cast<const uint8_t*>(source);  // d f16, high u32, 16 nibble bytes
  for (uint64_t i = 0; i < n; i += kBlock, block += 22, out += kBlock) {
    const float d = f16_bits_to_f32(load<uint16_t>(block));
    const uint32_t high = load<uint32_t>(block + 2);
    for (int j = 0; j < 16; ++j) {
      const int low_half = (block[6 + j] & 15) | static_cast<int>((high >> j & 1) << 4);
      const int high_half = (block[6 + j] >> 4) | static_cast<int>((high >> (j + 16) & 1) << 4);
      out[j] = d * static_cast<float>(low_half - 16);
      out[j + 16] = d * static_cast<float>(high_half - 16);
    }
  }
}

void q5_1_to_f32(const void* source, float* out, uint64_t n) {
  const auto* block = static_cast<const uint8_t*>(source);  // d f16, min f16, high u32, 16 bytes
  for (uint64_t i = 0; i < n; i += kBlock, block += 24, out += kBlock) {
    const float d = f16_bits_to_f32(load<uint16_t>(block));
    const float min = f16_bits_to_f32(load<uint16_t>(block + 2));
    const uint32_t high = load<uint32_t>(block + 4);
    for (int j = 0; j < 16; ++j) {
      const int low_half = (block[8 + j] & 15) | static_cast<int>((high >> j & 1) << 4);
      const int high_half = (block[8 + j] >> 4) | static_cast<int>((high >> (j + 16) & 1) << 4);
      out[j] = d * static_cast<float>(low_half) + min;
      out[j + 16] = d * static_cast<float>(high_half) + min;
    }
  }
}

void q8_0_to_f32(const void* source, float* out, uint64_t n) {
  const auto* block = static_cast<const uint8_t*>(source);  // d f16, 32 i8
  for (uint64_t i = 0; i < n; i += kBlock, block += 34, out += kBlock) {
    const float d = f16_bits_to_f32(load<uint16_t>(block));
    for (uint64_t j = 0; j < kBlock; ++j) {
      out[j] = d * static_cast<float>(static_cast<int8_t>(block[2 + j]));
    }
  }
}

// Nibbles as q4_0 has them, each standing for one of kIq4Values.
void iq4_nl_to_f32(const void* source, float* out, uint64_t n) {
  const auto* block = static_cast<const uint8_t*>(source);  // d f16, 16 nibble bytes
  for (uint64_t i = 0; i < n; i += kBlock, block += 18, out += kBlock) {
    const float d = f16_bits_to_f32(load<uint16_t>(block));
    for (int j = 0; j < 16; ++j) {
      out[j] = d * static_cast<float>(kIq4Values[block[2 + j] & 15]);
      out[j + 16] = d * static_cast<float>(kIq4Values[block[2 + j] >> 4]);
    }
  }
}

// In the order of DType, which indexes it.
constexpr std::array<DTypeDescriptor, 23> kDTypes = {{
    {DType::kF32, "f32", 1, 4, 0, f32_to_f32},
    {DType::kF16, "f16", 1, 2, 1, f16_to_f32},
    {DType::kBF16, "bf16", 1, 2, 30, bf16_to_f32},
    {DType::kI8, "i8", 1, 1, -1, nullptr},
    {DType::kQ4_0, "q4_0", 32, 18, 2, q4_0_to_f32},
    {DType::kQ4_1, "q4_1", 32, 20, 3, q4_1_to_f32},
    {DType::kQ5_0, "q5_0", 32, 22, 6, q5_0_to_f32},
    {DType::kQ5_1, "q5_1", 32, 24, 7, q5_1_to_f32},
    {DType::kQ8_0, "q8_0", 32, 34, 8, q8_0_to_f32},
    {DType::kI16, "i16", 1, 2, 25, nullptr},
    {DType::kI32, "i32", 1, 4, 26, nullptr},
    {DType::kQ2_K, "q2_k", kKQuantBlock, 84, 10, q2_k_to_f32},
    {DType::kQ3_K, "q3_k", kKQuantBlock, 110, 11, q3_k_to_f32},
    {DType::kQ4_K, "q4_k", kKQuantBlock, 144, 12, q4_k_to_f32},
    {DType::kQ5_K, "q5_k", kKQuantBlock, 176, 13, q5_k_to_f32},
    {DType::kQ6_K, "q6_k", kKQuantBlock, 210, 14, q6_k_to_f32},
    {DType::kAffine2, "affine2", 32, 8, -1, nullptr},
    {DType::kAffine3, "affine3", 32, 12, -1, nullptr},
    {DType::kAffine4, "affine4", 32, 16, -1, nullptr},
    {DType::kAffine5, "affine5", 32, 20, -1, nullptr},
    {DType::kAffine6, "affine6", 32, 24, -1, nullptr},
    {DType::kAffine8, "affine8", 32, 32, -1, nullptr},
    {DType::kIQ4_NL, "iq4_nl", 32, 18, 20, iq4_nl_to_f32},
}};

}  // namespace

const DTypeDescriptor& dtype_descriptor(DType dtype) {
  const auto index = static_cast<uint32_t>(dtype);
  if (index >= kDTypes.size()) {
    throw Error(ErrorKind::kInternal,
                "expected a known number format, found number " + std::to_string(index));
  }
  return kDTypes[index];
}

const DTypeDescriptor* find_ggml_dtype(int32_t ggml_type) {
  if (ggml_type < 0) return nullptr;
  for (const DTypeDescriptor& row : kDTypes) {
    if (row.ggml_type == ggml_type) return &row;
  }
  return nullptr;
}

const DTypeDescriptor* find_dtype(std::string_view name) {
  for (const DTypeDescriptor& row : kDTypes) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

uint64_t dtype_bytes(DType dtype, uint64_t n) {
  const DTypeDescriptor& row = dtype_descriptor(dtype);
  if (n % row.block != 0) {
    throw Error(ErrorKind::kModel, std::string("expected a multiple of ") +
                                       std::to_string(row.block) + " elements of format " +
                                       row.name + ", found " + std::to_string(n));
  }
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(n / row.block, uint64_t{row.block_bytes}, &bytes)) {
    throw Error(ErrorKind::kModel, std::to_string(n) + " elements of format " + row.name +
                                       " are more bytes than 64 bits can count");
  }
  return bytes;
}

}  // namespace vesper

#include "llm/dtype/dtype.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "error/error.h"
#include "llm/dtype/block_formats.h"
#include "llm/dtype/number_conversion.h"

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

void read_f32s(const void* source, float* out, uint64_t n) {
  // A tensor without elements has no memory, which memcpy does not allow.
  if (n != 0) std::memcpy(out, source, n * sizeof(float));
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) void read_f16s_f16c(const uint8_t* source, float* out,
                                                        uint64_t n) {
  uint64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + 2 * i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
  for (; i < n; ++i) out[i] = f16_to_f32(load<uint16_t>(source + 2 * i));
}
#endif

void read_f16s(const void* source, float* out, uint64_t n) {
  const auto* from = static_cast<const uint8_t*>(source);
#if defined(__x86_64__)
  static const bool has_f16c = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  if (has_f16c) return read_f16s_f16c(from, out, n);
#endif
  for (uint64_t i = 0; i < n; ++i) out[i] = f16_to_f32(load<uint16_t>(from + 2 * i));
}

void read_bf16s(const void* source, float* out, uint64_t n) {
  const auto* from = static_cast<const uint8_t*>(source);
  for (uint64_t i = 0; i < n; ++i) out[i] = bf16_to_f32(load<uint16_t>(from + 2 * i));
}

template <typename T>
void read_integers(const void* source, float* out, uint64_t n) {
  const auto* from = static_cast<const uint8_t*>(source);
  for (uint64_t i = 0; i < n; ++i) out[i] = static_cast<float>(load<T>(from + i * sizeof(T)));
}

constexpr DTypeDescriptor plain(DType dtype, const char* name, uint32_t bytes, int32_t ggml_type,
                                void (*to_f32)(const void*, float*, uint64_t)) {
  return {dtype, name, 1, bytes, ggml_type, to_f32, {}, nullptr};
}

constexpr DTypeDescriptor quantized(DType dtype, const char* name, uint32_t block,
                                    uint32_t block_bytes, int32_t ggml_type, BlockFormat format,
                                    void (*unpack)(const uint8_t*, const UnpackedBlock&)) {
  return {dtype, name, block, block_bytes, ggml_type, nullptr, format, unpack};
}

// The scales of an affine format lie beside the tensor, which tells their kind and group.
template <uint32_t kBits>
constexpr DTypeDescriptor affine(DType dtype, const char* name) {
  return {dtype,
          name,
          32,
          4 * kBits,
          -1,
          nullptr,
          {.bits = kBits, .group = 0, .has_minimum = true},
          unpack_affine<kBits>};
}

constexpr BlockFormat with_zero(uint32_t bits, uint32_t zero) {
  return {.bits = bits, .zero = zero};
}
constexpr BlockFormat with_minimum(uint32_t bits) { return {.bits = bits, .has_minimum = true}; }
constexpr BlockFormat parts_with_zero(uint32_t bits, uint32_t group, uint32_t zero) {
  return {.bits = bits, .scale = ScaleKind::kParts, .group = group, .zero = zero};
}
constexpr BlockFormat parts_with_minimum(uint32_t bits, uint32_t group) {
  return {.bits = bits, .scale = ScaleKind::kParts, .group = group, .has_minimum = true};
}

// In the order of DType, which indexes it.
constexpr std::array<DTypeDescriptor, 23> kDTypes = {{
    plain(DType::kF32, "f32", 4, 0, read_f32s),
    plain(DType::kF16, "f16", 2, 1, read_f16s),
    plain(DType::kBF16, "bf16", 2, 30, read_bf16s),
    plain(DType::kI8, "i8", 1, -1, read_integers<int8_t>),
    quantized(DType::kQ4_0, "q4_0", 32, 18, 2, with_zero(4, 8), unpack_q4_0),
    quantized(DType::kQ4_1, "q4_1", 32, 20, 3, with_minimum(4), unpack_q4_1),
    quantized(DType::kQ5_0, "q5_0", 32, 22, 6, with_zero(5, 16), unpack_q5_0),
    quantized(DType::kQ5_1, "q5_1", 32, 24, 7, with_minimum(5), unpack_q5_1),
    quantized(DType::kQ8_0, "q8_0", 32, 34, 8, with_zero(8, 128), unpack_q8_0),
    plain(DType::kI16, "i16", 2, 25, read_integers<int16_t>),
    plain(DType::kI32, "i32", 4, 26, read_integers<int32_t>),
    quantized(DType::kQ2_K, "q2_k", 256, 84, 10, parts_with_minimum(2, 16), unpack_q2_k),
    quantized(DType::kQ3_K, "q3_k", 256, 110, 11, parts_with_zero(3, 16, 4), unpack_q3_k),
    quantized(DType::kQ4_K, "q4_k", 256, 144, 12, parts_with_minimum(4, 32), unpack_q4_k),
    quantized(DType::kQ5_K, "q5_k", 256, 176, 13, parts_with_minimum(5, 32), unpack_q5_k),
    quantized(DType::kQ6_K, "q6_k", 256, 210, 14, parts_with_zero(6, 16, 32), unpack_q6_k),
    affine<2>(DType::kAffine2, "affine2"),
    affine<3>(DType::kAffine3, "affine3"),
    affine<4>(DType::kAffine4, "affine4"),
    affine<5>(DType::kAffine5, "affine5"),
    affine<6>(DType::kAffine6, "affine6"),
    affine<8>(DType::kAffine8, "affine8"),
    // Codes are the values that the file's 4 bits stand for: they are not evenly spaced.
    quantized(DType::kIQ4_NL, "iq4_nl", 32, 18, 20, with_zero(8, 128), unpack_iq4_nl),
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

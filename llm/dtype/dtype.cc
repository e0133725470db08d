#include "llm/dtype/dtype.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "error/error.h"
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
  // A tensor without elements has no memory; memcpy needs a pointer.
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
  // GCC adds this only with -O2. Without it every later SSE instruction of the thread, and of
  // threads that it starts, waits for the upper halves on Intel CPUs: log-mels took nine times as
  // long.
  _mm256_zeroupper();
  for (; i < n; ++i) out[i] = f16_to_f32(load<uint16_t>(source + 2 * i));
}
#endif

void read_f16s(const void* source, float* out, uint64_t n) {
  const auto* from = static_cast<const uint8_t*>(source);
#if defined(__x86_64__)
  // Every CPU with AVX2 has F16C, whose name clang does not know here.
  static const bool has_f16c = __builtin_cpu_supports("avx2");
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

// The quantized formats: one function each that unpacks one block, which may be unaligned.
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
//   iq4_nl  d, nibbles                   x = d * kValues[q]
//   mxfp4   e u8, nibbles                x = 2^(e - 127) * E2M1 of q
//   affineN N-bit codes in one stream, lowest bits first; scales and biases are separate
//
// Blocks of 256 elements, with small quantized scales for parts of a block:
//   q2_k    scales [16], qs [64], d, dmin
//           x = d * (scale & 15) * q - dmin * (scale >> 4), 16 elements per scale
//   q3_k    hmask [32], qs [64], scales [12], d
//           x = d * (scale - 32) * (q - 4), 16 elements per 6-bit scale
//   q4_k    d, dmin, scales [12], qs [128]
//   q5_k    d, dmin, scales [12], qh [32], qs [128]
//           x = d * scale * q - dmin * min, 32 elements per 6-bit scale and min
//   q6_k    ql [128], qh [64], scales i8 [16], d
//           x = d * scale * (q - 32), 16 elements per scale
//   iq4_xs  d, high u16, low [4], qs [128]
//           x = d * (scale - 32) * kValues[q], 32 elements per 6-bit scale; nibbles as in iq4_nl
//   tq1_0   qs [48], qh [4], d
//           x = d * (q - 1); a byte has five base-3 digits, as a fraction of 256 rounded up
//   tq2_0   qs [64], d
//           x = d * (q - 1)

void unpack_nibbles(const uint8_t* from, uint8_t* codes) {
  for (uint32_t j = 0; j < 16; ++j) codes[j] = from[j] & 15;
  for (uint32_t j = 0; j < 16; ++j) codes[j + 16] = from[j] >> 4;
}

void unpack_five_bits(const uint8_t* from, uint32_t high, uint8_t* codes) {
  for (uint32_t j = 0; j < 16; ++j) {
    codes[j] = static_cast<uint8_t>((from[j] & 15) | (high >> j & 1) << 4);
    codes[j + 16] = static_cast<uint8_t>(from[j] >> 4 | (high >> (j + 16) & 1) << 4);
  }
}

// dmin is subtracted in a file and added in UnpackedBlocks.
uint32_t negated_f16(uint32_t bits) { return bits ^ 0x8000; }

// The eight 6-bit scales and minimums in the 12 bytes of q4_k and q5_k: the first four pairs are in
// the low bits of bytes 0-3 and 4-7; the last four have their low bits in bytes 8-11 and their high
// bits above the first four.
void unpack_six_bit_scales(const uint8_t* packed, int8_t* scales, int8_t* minimums) {
  for (uint32_t k = 0; k < 4; ++k) {
    scales[k] = static_cast<int8_t>(packed[k] & 63);
    minimums[k] = static_cast<int8_t>(packed[k + 4] & 63);
    scales[k + 4] = static_cast<int8_t>((packed[k + 8] & 15) | (packed[k] >> 6) << 4);
    minimums[k + 4] = static_cast<int8_t>(packed[k + 8] >> 4 | (packed[k + 4] >> 6) << 4);
  }
}

void unpack_q4_0(const uint8_t* block, UnpackedBlocks to) {
  *to.scales = load<uint16_t>(block);
  unpack_nibbles(block + 2, to.codes);
}

void unpack_q4_1(const uint8_t* block, UnpackedBlocks to) {
  *to.scales = load<uint16_t>(block);
  *to.minimums = load<uint16_t>(block + 2);
  unpack_nibbles(block + 4, to.codes);
}

void unpack_q5_0(const uint8_t* block, UnpackedBlocks to) {
  *to.scales = load<uint16_t>(block);
  unpack_five_bits(block + 6, load<uint32_t>(block + 2), to.codes);
}

void unpack_q5_1(const uint8_t* block, UnpackedBlocks to) {
  *to.scales = load<uint16_t>(block);
  *to.minimums = load<uint16_t>(block + 2);
  unpack_five_bits(block + 8, load<uint32_t>(block + 4), to.codes);
}

void unpack_q8_0(const uint8_t* block, UnpackedBlocks to) {
  *to.scales = load<uint16_t>(block);
  for (uint32_t j = 0; j < 32; ++j) to.codes[j] = block[2 + j] ^ 0x80;
}

// ggml-common.h, kvalues_iq4nl, plus 128.
constexpr uint8_t kUnevenCodes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                      129, 141, 153, 166, 181, 197, 217, 241};
// Twice the E2M1 numbers (0, 0.5, 1, 1.5, 2, 3, 4, 6 and the same below zero), plus 12.
constexpr uint32_t kE2M1Zero = 12;
constexpr uint8_t kE2M1Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

void map_codes(const uint8_t* map, uint8_t* codes) {
  for (uint32_t j = 0; j < 32; ++j) codes[j] = map[codes[j]];
}

void unpack_iq4_nl(const uint8_t* block, UnpackedBlocks to) {
  *to.scales = load<uint16_t>(block);
  unpack_nibbles(block + 2, to.codes);
  map_codes(kUnevenCodes, to.codes);
}

void unpack_iq4_xs(const uint8_t* block, UnpackedBlocks to) {
  *to.scales = load<uint16_t>(block);
  const uint32_t high = load<uint16_t>(block + 2);
  for (uint32_t k = 0; k < 8; ++k) {
    const uint32_t low = block[4 + k / 2] >> (4 * (k % 2)) & 15;
    to.part_scales[k] = static_cast<int8_t>((low | (high >> 2 * k & 3) << 4) - 32);
    unpack_nibbles(block + 8 + 16 * k, to.codes + 32 * k);
    map_codes(kUnevenCodes, to.codes + 32 * k);
  }
}

void unpack_mxfp4(const uint8_t* block, UnpackedBlocks to) {
  *to.scales = bf16_of_half_e8m0(block[0]);
  unpack_nibbles(block + 1, to.codes);
  map_codes(kE2M1Codes, to.codes);
}

// A ternary format has no scales of parts; they are 1.
constexpr uint32_t kTernaryGroup = 128, kTernaryParts = kPartsBlock / kTernaryGroup;

// The codes of `n` bytes are strided: digit k of byte l is element k * n + l. Returns their end.
uint8_t* unpack_base_3(const uint8_t* bytes, uint32_t n, uint32_t n_digits, uint8_t* codes) {
  for (uint32_t l = 0; l < n; ++l) {
    uint32_t fraction = bytes[l];
    for (uint32_t k = 0; k < n_digits; ++k) {
      codes[k * n + l] = static_cast<uint8_t>(fraction * 3 >> 8);
      fraction = fraction * 3 & 255;
    }
  }
  return codes + n_digits * n;
}

void unpack_tq1_0(const uint8_t* block, UnpackedBlocks to) {
  uint8_t* codes = unpack_base_3(block, 32, 5, to.codes);
  codes = unpack_base_3(block + 32, 16, 5, codes);
  unpack_base_3(block + 48, 4, 4, codes);
  std::fill_n(to.part_scales, kTernaryParts, int8_t{1});
  *to.scales = load<uint16_t>(block + 52);
}

// The four runs of 32 elements of a half share bytes.
void unpack_two_bits(const uint8_t* from, uint8_t* codes) {
  for (uint32_t run = 0; run < 8; ++run) {
    const uint8_t* low = from + 32 * (run / 4);
    for (uint32_t l = 0; l < 32; ++l) codes[32 * run + l] = low[l] >> (2 * (run % 4)) & 3;
  }
}

void unpack_tq2_0(const uint8_t* block, UnpackedBlocks to) {
  unpack_two_bits(block, to.codes);
  std::fill_n(to.part_scales, kTernaryParts, int8_t{1});
  *to.scales = load<uint16_t>(block + 64);
}

void unpack_q2_k(const uint8_t* block, UnpackedBlocks to) {
  for (uint32_t k = 0; k < 16; ++k) {
    to.part_scales[k] = static_cast<int8_t>(block[k] & 15);
    to.part_minimums[k] = static_cast<int8_t>(block[k] >> 4);
  }
  unpack_two_bits(block + 16, to.codes);
  *to.scales = load<uint16_t>(block + 80);
  *to.minimums = negated_f16(load<uint16_t>(block + 82));
}

void unpack_q3_k(const uint8_t* block, UnpackedBlocks to) {
  for (uint32_t run = 0; run < 8; ++run) {
    const uint8_t *low = block + 32 + 32 * (run / 4), *high = block;  // bit `run` of each byte
    for (uint32_t l = 0; l < 32; ++l) {
      to.codes[32 * run + l] =
          static_cast<uint8_t>((low[l] >> (2 * (run % 4)) & 3) | (high[l] >> run & 1) << 2);
    }
  }
  const uint8_t* packed = block + 96;
  for (uint32_t k = 0; k < 16; ++k) {
    const int low = packed[k % 8] >> (4 * (k / 8)) & 15;
    const int high = packed[8 + k % 4] >> (2 * (k / 4)) & 3;
    to.part_scales[k] = static_cast<int8_t>((low | high << 4) - 32);
  }
  *to.scales = load<uint16_t>(block + 108);
}

void unpack_q4_k(const uint8_t* block, UnpackedBlocks to) {
  *to.scales = load<uint16_t>(block);
  *to.minimums = negated_f16(load<uint16_t>(block + 2));
  unpack_six_bit_scales(block + 4, to.part_scales, to.part_minimums);
  for (uint32_t run = 0; run < 8; ++run) {
    const uint8_t* nibbles = block + 16 + 32 * (run / 2);
    for (uint32_t l = 0; l < 32; ++l) to.codes[32 * run + l] = nibbles[l] >> (4 * (run % 2)) & 15;
  }
}

void unpack_q5_k(const uint8_t* block, UnpackedBlocks to) {
  *to.scales = load<uint16_t>(block);
  *to.minimums = negated_f16(load<uint16_t>(block + 2));
  unpack_six_bit_scales(block + 4, to.part_scales, to.part_minimums);
  const uint8_t* high = block + 16;  // bit `run` of byte l: the fifth bit of element 32 run + l
  for (uint32_t run = 0; run < 8; ++run) {
    const uint8_t* nibbles = block + 48 + 32 * (run / 2);
    for (uint32_t l = 0; l < 32; ++l) {
      to.codes[32 * run + l] =
          static_cast<uint8_t>((nibbles[l] >> (4 * (run % 2)) & 15) | (high[l] >> run & 1) << 4);
    }
  }
}

void unpack_q6_k(const uint8_t* block, UnpackedBlocks to) {
  // Runs k and k + 2 of a half share low bytes.
  for (uint32_t run = 0; run < 8; ++run) {
    const uint32_t half = run / 4, k = run % 4;
    const uint8_t *low = block + 64 * half + 32 * (k % 2), *high = block + 128 + 32 * half;
    for (uint32_t l = 0; l < 32; ++l) {
      to.codes[32 * run + l] =
          static_cast<uint8_t>((low[l] >> (4 * (k / 2)) & 15) | (high[l] >> (2 * k) & 3) << 4);
    }
  }
  std::memcpy(to.part_scales, block + 192, 16);
  *to.scales = load<uint16_t>(block + 208);
}

// 32 codes of kBits each: 2, 3, 4, 5, 6 or 8.
template <uint32_t kBits>
void unpack_affine(const uint8_t* block, UnpackedBlocks to) {
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t bit = i * kBits;
    uint32_t value = block[bit / 8];
    if (bit % 8 + kBits > 8) value |= uint32_t{block[bit / 8 + 1]} << 8;
    to.codes[i] = static_cast<uint8_t>(value >> bit % 8 & ((1u << kBits) - 1));
  }
}

constexpr DTypeDescriptor plain(DType dtype, const char* name, uint32_t bytes, int32_t ggml_type,
                                void (*to_f32)(const void*, float*, uint64_t)) {
  return {dtype, name, 1, bytes, ggml_type, to_f32, {}, nullptr};
}

// Calls `kUnpack`, which the compiler inlines, for each block.
template <void (*kUnpack)(const uint8_t*, UnpackedBlocks), uint32_t kBlock, uint32_t kBlockBytes,
          uint32_t kScales, uint32_t kParts>
void unpack_blocks(const uint8_t* blocks, uint64_t n_blocks, UnpackedBlocks to) {
  const auto advance = [](auto*& pointer, uint32_t n) {
    if (pointer != nullptr) pointer += n;
  };
  for (uint64_t i = 0; i < n_blocks; ++i, blocks += kBlockBytes) {
    kUnpack(blocks, to);
    to.codes += kBlock;
    advance(to.scales, kScales);
    advance(to.minimums, kScales);
    advance(to.part_scales, kParts);
    advance(to.part_minimums, kParts);
  }
}

// A format of blocks of 32.
template <void (*kUnpack)(const uint8_t*, UnpackedBlocks), uint32_t kBlockBytes>
constexpr DTypeDescriptor quantized(DType dtype, const char* name, int32_t ggml_type,
                                    BlockFormat format) {
  return {dtype,     name,    32,     kBlockBytes,
          ggml_type, nullptr, format, unpack_blocks<kUnpack, 32, kBlockBytes, 1, 0>};
}

// A format of blocks of 256 with a small scale for every kGroup elements.
template <void (*kUnpack)(const uint8_t*, UnpackedBlocks), uint32_t kBlockBytes, uint32_t kGroup>
constexpr DTypeDescriptor k_quant(DType dtype, const char* name, int32_t ggml_type,
                                  BlockFormat format) {
  format.scale = ScaleKind::kParts;
  format.group = kGroup;
  return {dtype,       name,
          kPartsBlock, kBlockBytes,
          ggml_type,   nullptr,
          format,      unpack_blocks<kUnpack, kPartsBlock, kBlockBytes, 1, kPartsBlock / kGroup>};
}

// The tensor has the kind and group of an affine format's scales.
template <uint32_t kBits>
constexpr DTypeDescriptor affine(DType dtype, const char* name) {
  return {dtype,
          name,
          32,
          4 * kBits,
          -1,
          nullptr,
          {.bits = kBits, .group = 0, .has_minimum = true},
          unpack_blocks<unpack_affine<kBits>, 32, 4 * kBits, 0, 0>};
}

// A bf16 holds every E8M0 scale, and half of it, exactly.
constexpr BlockFormat kE2M1Format = {.bits = 5, .scale = ScaleKind::kBF16, .zero = kE2M1Zero};
constexpr BlockFormat with_zero(uint32_t bits, uint32_t zero) {
  return {.bits = bits, .zero = zero};
}
constexpr BlockFormat with_minimum(uint32_t bits) { return {.bits = bits, .has_minimum = true}; }

// In the order of DType, which indexes it.
constexpr DTypeDescriptor kDTypes[] = {
    plain(DType::kF32, "f32", 4, 0, read_f32s),
    plain(DType::kF16, "f16", 2, 1, read_f16s),
    plain(DType::kBF16, "bf16", 2, 30, read_bf16s),
    plain(DType::kI8, "i8", 1, -1, read_integers<int8_t>),
    quantized<unpack_q4_0, 18>(DType::kQ4_0, "q4_0", 2, with_zero(4, 8)),
    quantized<unpack_q4_1, 20>(DType::kQ4_1, "q4_1", 3, with_minimum(4)),
    quantized<unpack_q5_0, 22>(DType::kQ5_0, "q5_0", 6, with_zero(5, 16)),
    quantized<unpack_q5_1, 24>(DType::kQ5_1, "q5_1", 7, with_minimum(5)),
    quantized<unpack_q8_0, 34>(DType::kQ8_0, "q8_0", 8, with_zero(8, 128)),
    plain(DType::kI16, "i16", 2, 25, read_integers<int16_t>),
    plain(DType::kI32, "i32", 4, 26, read_integers<int32_t>),
    k_quant<unpack_q2_k, 84, 16>(DType::kQ2_K, "q2_k", 10, with_minimum(2)),
    k_quant<unpack_q3_k, 110, 16>(DType::kQ3_K, "q3_k", 11, with_zero(3, 4)),
    k_quant<unpack_q4_k, 144, 32>(DType::kQ4_K, "q4_k", 12, with_minimum(4)),
    k_quant<unpack_q5_k, 176, 32>(DType::kQ5_K, "q5_k", 13, with_minimum(5)),
    k_quant<unpack_q6_k, 210, 16>(DType::kQ6_K, "q6_k", 14, with_zero(6, 32)),
    affine<2>(DType::kAffine2, "affine2"),
    affine<3>(DType::kAffine3, "affine3"),
    affine<4>(DType::kAffine4, "affine4"),
    affine<5>(DType::kAffine5, "affine5"),
    affine<6>(DType::kAffine6, "affine6"),
    affine<8>(DType::kAffine8, "affine8"),
    // Codes are the unevenly spaced values of the file's 4-bit codes.
    quantized<unpack_iq4_nl, 18>(DType::kIQ4_NL, "iq4_nl", 20, with_zero(8, 128)),
    k_quant<unpack_iq4_xs, 136, 32>(DType::kIQ4_XS, "iq4_xs", 23, with_zero(8, 128)),
    quantized<unpack_mxfp4, 17>(DType::kMXFP4, "mxfp4", 39, kE2M1Format),
    k_quant<unpack_tq1_0, 54, kTernaryGroup>(DType::kTQ1_0, "tq1_0", 34, with_zero(2, 1)),
    k_quant<unpack_tq2_0, 66, kTernaryGroup>(DType::kTQ2_0, "tq2_0", 35, with_zero(2, 1)),
};
static_assert([] {
  for (uint32_t i = 0; i < std::size(kDTypes); ++i) {
    if (static_cast<uint32_t>(kDTypes[i].dtype) != i) return false;
  }
  return true;
}());

}  // namespace

std::span<const DTypeDescriptor> dtypes() { return kDTypes; }

const DTypeDescriptor& dtype_descriptor(DType dtype) {
  const auto index = static_cast<uint32_t>(dtype);
  if (index >= std::size(kDTypes)) {
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

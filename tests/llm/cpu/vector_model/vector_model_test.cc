// The vector model's instructions, compared with the CPU's.
#include <gtest/gtest.h>

// GCC 12 warns about undefined vectors in its own intrinsics; ignored to the end of the file.
#pragma GCC diagnostic ignored "-Wuninitialized"
#define VESPER_MODEL_WITHOUT_NAMES
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>

#include "tests/llm/cpu/modelled_features.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")))

namespace vesper::vector_model_test {
namespace {

// Operands of any type.
struct Operands {
  alignas(64) std::byte a[64], b[64], c[64];
};
using Run = void (*)(const Operands& in, std::byte* out);
enum class Result { kBits, kF32, kBF16 };
struct Instruction {
  const char* name;
  Result result;  // NaNs are equal
  Run native, model;
};

#define PS(operand) (*reinterpret_cast<const __m512*>(in.operand))
#define SI(operand) (*reinterpret_cast<const __m512i*>(in.operand))
#define SI256(operand) (*reinterpret_cast<const __m256i*>(in.operand))
#define INSTRUCTION(result, function, ...)                             \
  {                                                                    \
#function, Result::result,                                           \
   [](const Operands& in, std::byte* out) AVX512 {                      \
     const auto value = _mm512_##function(__VA_ARGS__);                 \
     std::memcpy(out, &value, sizeof value);                            \
   },                                                                   \
   [](const Operands& in, std::byte* out) {                             \
     const auto value = vector_model::mm512_##function(__VA_ARGS__);    \
     std::memcpy(out, &value, sizeof value);                            \
   } \
  }
// Of dot_instructions.h: `sum` is read and written.
#define DOT_INSTRUCTION(result, name, native_statement, model_statement) \
  {                                                                      \
    name, Result::result,                                                \
        [](const Operands& in, std::byte* out) AVX512 {                  \
          __m512i sum = SI(c);                                           \
          native_statement;                                              \
          std::memcpy(out, &sum, sizeof sum);                            \
        },                                                               \
        [](const Operands& in, std::byte* out) {                         \
          __m512i sum = SI(c);                                           \
          vector_model::model_statement;                                 \
          std::memcpy(out, &sum, sizeof sum);                            \
        }                                                                \
  }

const Instruction kInstructions[] = {
    DOT_INSTRUCTION(kF32, "vdpbf16ps",
                    asm("vdpbf16ps %2, %1, %0"
                        : "+v"(sum)
                        : "v"(SI(a)), "v"(SI(b))),
                    add_bf16_pairs(sum, SI(a), SI(b))),
    DOT_INSTRUCTION(kBits, "vpdpbusd",
                    asm("vpdpbusd %2, %1, %0"
                        : "+v"(sum)
                        : "v"(SI(a)), "v"(SI(b))),
                    add_byte_quads(sum, SI(a), SI(b))),
    DOT_INSTRUCTION(kBits, "vpdpwssd",
                    asm("vpdpwssd %2%{1to16%}, %1, %0"
                        : "+v"(sum)
                        : "v"(SI(a)), "m"(in.b)),
                    add_int16_pairs(sum, SI(a), in.b)),
    INSTRUCTION(kBF16, cvtne2ps_pbh, PS(a), PS(b)),
    INSTRUCTION(kF32, fmadd_ps, PS(a), PS(b), PS(c)),
    INSTRUCTION(kF32, add_ps, PS(a), PS(b)),
    INSTRUCTION(kF32, sub_ps, PS(a), PS(b)),
    INSTRUCTION(kF32, mul_ps, PS(a), PS(b)),
    INSTRUCTION(kF32, maskz_div_ps, 0x5a3c, PS(a), PS(b)),
    INSTRUCTION(kF32, reduce_ps, PS(a), 9),
    INSTRUCTION(kF32, scalef_ps, PS(a), PS(b)),
    INSTRUCTION(kF32, cvtepi32_ps, SI(a)),
    INSTRUCTION(kF32, cvtph_ps, SI256(a)),
    INSTRUCTION(kBits, cvtps_epi32, PS(a)),
    INSTRUCTION(kBits, cvtepu16_epi32, SI256(a)),
    INSTRUCTION(kBits, cvtepi32_epi16, SI(a)),
    INSTRUCTION(kBits, packs_epi32, SI(a), SI(b)),
    INSTRUCTION(kBits, cmp_ps_mask, PS(a), PS(b), _CMP_GT_OQ),
    INSTRUCTION(kBits, add_epi32, SI(a), SI(b)),
    INSTRUCTION(kBits, and_si512, SI(a), SI(b)),
    INSTRUCTION(kBits, or_si512, SI(a), SI(b)),
    INSTRUCTION(kBits, max_epu16, SI(a), SI(b)),
    INSTRUCTION(kBits, slli_epi32, SI(a), 7),
    INSTRUCTION(kBits, srli_epi32, SI(a), 24),
    INSTRUCTION(kBits, slli_epi16, SI(a), 3),
    INSTRUCTION(kBits, srli_epi16, SI(a), 5),
    INSTRUCTION(kBits, ternarylogic_epi32, SI(a), SI(b), SI(c), 0xea),
    INSTRUCTION(kBits, ternarylogic_epi32, SI(a), SI(b), SI(c), 0x1b),
    INSTRUCTION(kBits, permutexvar_epi16, SI(a), SI(b)),
    INSTRUCTION(kBits, permutex2var_epi16, SI(a), SI(b), SI(c)),
    INSTRUCTION(kBits, permutexvar_ps, SI(a), PS(b)),
    INSTRUCTION(kBits, unpacklo_epi32, SI(a), SI(b)),
    INSTRUCTION(kBits, unpackhi_epi32, SI(a), SI(b)),
    INSTRUCTION(kBits, unpacklo_epi64, SI(a), SI(b)),
    INSTRUCTION(kBits, unpackhi_epi64, SI(a), SI(b)),
    INSTRUCTION(kBits, shuffle_i32x4, SI(a), SI(b), 0x44),
    INSTRUCTION(kBits, shuffle_i32x4, SI(a), SI(b), 0x8d),
    INSTRUCTION(kBits, maskz_loadu_epi32, 0x0fff, in.a),
    INSTRUCTION(kBits, set1_epi8, -3),
    INSTRUCTION(kBits, set1_epi16, -3),
    INSTRUCTION(kBits, set_epi32, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
};

// Bits of which every second float is of ordinary size.
void fill(std::mt19937& random, std::byte (&operand)[64]) {
  for (size_t i = 0; i < 64; i += 4) {
    uint32_t bits = static_cast<uint32_t>(random());
    if (random() % 2) bits = (bits & 0x807fffff) | (118 + random() % 18) << 23;
    std::memcpy(operand + i, &bits, sizeof bits);
  }
}

bool is_nan(Result result, const std::byte* element) {
  uint32_t bits = 0;
  if (result == Result::kF32) std::memcpy(&bits, element, 4);
  if (result == Result::kBF16) std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, element, 2);
  return (bits & 0x7fffffff) > 0x7f800000;
}

TEST(VectorModel, GivesTheBitsOfTheCpu) {
  if (!testing::features_of_cpu().avx512_bf16) {
    GTEST_SKIP() << "not run: this CPU lacks AVX512-BF16 for comparison with the model";
  }
  std::mt19937 random(1);
  for (const Instruction& instruction : kInstructions) {
    const size_t size = instruction.result == Result::kBF16 ? 2 : 4;
    for (int round = 0; round < 2000; ++round) {
      Operands in;
      fill(random, in.a);
      fill(random, in.b);
      fill(random, in.c);
      std::byte expected[64] = {}, found[64] = {};
      instruction.native(in, expected);
      instruction.model(in, found);
      for (size_t i = 0; i < 64; i += size) {
        if (is_nan(instruction.result, expected + i) && is_nan(instruction.result, found + i))
          continue;
        ASSERT_EQ(std::memcmp(expected + i, found + i, size), 0)
            << instruction.name << ", byte " << i << ", round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace vesper::vector_model_test

#include "llm/dtype/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "error/error.h"
#include "llm/dtype/tensor_view.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/upper_halves.h"

namespace vesper::dtype_test {
namespace {

std::vector<float> unpacked(DType dtype, const std::vector<uint8_t>& bytes, uint64_t n) {
  std::vector<float> out(n, std::nanf(""));
  TensorView tensor;
  tensor.dtype = dtype;
  tensor.shape = {n};
  tensor.data = bytes.data();
  read_f32(tensor, out.data());
  return out;
}

// By the definition of IEEE 754 binary16.
double f16_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

#if defined(__x86_64__)
TEST(DType, ReadingF16LeavesNoUpperHalvesInUse) {
  if (!test::cpu_tells_registers_in_use()) {
    GTEST_SKIP() << "this CPU does not tell registers in use";
  }
  test::clear_upper_halves();
  ASSERT_FALSE(test::upper_halves_are_in_use());
  unpacked(DType::kF16, std::vector<uint8_t>(64, 1), 32);
  EXPECT_FALSE(test::upper_halves_are_in_use());
}
#endif

TEST(DType, RowsAreFoundByNumberAndByName) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kQ4_0, DType::kQ4_1,
        DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kI16, DType::kI32}) {
    const DTypeDescriptor& row = dtype_descriptor(dtype);
    EXPECT_EQ(row.dtype, dtype);
    EXPECT_EQ(find_dtype(row.name), &row);
    if (row.ggml_type >= 0) {
      EXPECT_EQ(find_ggml_dtype(row.ggml_type), &row);
    }
  }
  EXPECT_EQ(find_ggml_dtype(-1), nullptr);
  EXPECT_EQ(find_ggml_dtype(22), nullptr);  // iq2_s
  EXPECT_EQ(find_dtype("iq2_s"), nullptr);
}

TEST(DType, SizesAreCheckedForBlocksAndOverflow) {
  EXPECT_EQ(dtype_bytes(DType::kQ5_1, 64), 48u);
  EXPECT_THROW(dtype_bytes(DType::kQ5_1, 33), Error);
  EXPECT_THROW(dtype_bytes(DType::kF32, uint64_t{1} << 62), Error);
}

TEST(DType, EveryF16IsReadExactly) {
  // An odd number of elements at an odd address also tests the scalar tail and unaligned reads.
  constexpr uint64_t kCount = 65535;
  std::vector<uint8_t> bytes(1 + 2 * kCount);
  for (uint64_t i = 0; i < kCount; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    std::memcpy(bytes.data() + 1 + 2 * i, &bits, 2);
  }
  std::vector<float> out(kCount);
  dtype_descriptor(DType::kF16).to_f32(bytes.data() + 1, out.data(), kCount);
  for (uint64_t i = 0; i < kCount; ++i) {
    const double expected = f16_value(static_cast<uint16_t>(i));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(out[i])) << i;
    } else {
      ASSERT_EQ(out[i], expected) << i;
      ASSERT_EQ(std::signbit(out[i]), std::signbit(expected)) << i;
    }
  }
}

TEST(DType, ATailOfF16IsReadExactly) {
  // Seven elements use the portable code on every machine.
  for (uint32_t i = 0; i < 65536; i += 7) {
    std::vector<uint8_t> bytes(14);
    for (uint32_t j = 0; j < 7; ++j) {
      const auto bits = static_cast<uint16_t>(i + j);
      std::memcpy(bytes.data() + 2 * j, &bits, 2);
    }
    const auto out = unpacked(DType::kF16, bytes, 7);
    for (uint32_t j = 0; j < 7; ++j) {
      const double expected = f16_value(static_cast<uint16_t>(i + j));
      if (!std::isnan(expected)) {
        ASSERT_EQ(out[j], expected) << i + j;
      }
    }
  }
}

TEST(DType, BF16IsTheUpperHalfOfF32) {
  const std::vector<uint8_t> bytes = {0x80, 0x3f, 0x20, 0xc1};  // 1.0, -10.0
  EXPECT_EQ(unpacked(DType::kBF16, bytes, 2), (std::vector<float>{1.0f, -10.0f}));
}

// Byte j has the nibbles j (low) and 15 - j (high); d = 0.5 (0x3800), minimum 2 (0x4000), fifth
// bits 0x80000001 (elements 0 and 31).
std::vector<uint8_t> block(bool has_minimum, bool has_fifth_bits) {
  std::string head("\x00\x38", 2);
  if (has_minimum) head += std::string("\x00\x40", 2);
  if (has_fifth_bits) head += std::string("\x01\x00\x00\x80", 4);
  std::vector<uint8_t> bytes(head.begin(), head.end());
  for (int j = 0; j < 16; ++j) bytes.push_back(static_cast<uint8_t>(j | (15 - j) << 4));
  return bytes;
}

TEST(DType, BlocksHoldElementsJAndJPlus16InOneByte) {
  const auto q4_0 = unpacked(DType::kQ4_0, block(false, false), 32);
  const auto q4_1 = unpacked(DType::kQ4_1, block(true, false), 32);
  const auto q5_0 = unpacked(DType::kQ5_0, block(false, true), 32);
  const auto q5_1 = unpacked(DType::kQ5_1, block(true, true), 32);
  for (int i = 0; i < 32; ++i) {
    const int nibble = i < 16 ? i : 31 - i;
    const int five_bits = nibble + (i == 0 || i == 31 ? 16 : 0);
    const auto at = static_cast<size_t>(i);
    EXPECT_EQ(q4_0[at], 0.5f * static_cast<float>(nibble - 8)) << i;
    EXPECT_EQ(q4_1[at], 0.5f * static_cast<float>(nibble) + 2.0f) << i;
    EXPECT_EQ(q5_0[at], 0.5f * static_cast<float>(five_bits - 16)) << i;
    EXPECT_EQ(q5_1[at], 0.5f * static_cast<float>(five_bits) + 2.0f) << i;
  }
}

TEST(DType, Q8BlocksAreAScaleAndSignedBytes) {
  std::vector<uint8_t> bytes = {0x00, 0x38};
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<uint8_t>(8 * i - 128));
  const auto values = unpacked(DType::kQ8_0, bytes, 32);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(values[static_cast<size_t>(i)], 0.5f * static_cast<float>(8 * i - 128));
  }
}

TEST(DType, TestHelperRoundsF16ToNearest) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    ASSERT_EQ(test::f16_of(static_cast<float>(f16_value(static_cast<uint16_t>(bits)))), bits);
  }
  EXPECT_EQ(test::f16_of(1.0f + 0x1p-11f), 0x3c00);  // ties round to even
  EXPECT_EQ(test::f16_of(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);
}

}  // namespace
}  // namespace vesper::dtype_test

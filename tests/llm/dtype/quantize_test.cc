// Quantizers compared with ggml's: the same bytes where the rule is the same, and otherwise no
// larger error.
#include "llm/dtype/quantize.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <limits>
#include <random>

#include "error/error.h"
#include "llm/dtype/tensor_view.h"

namespace vesper::quantize_test {
namespace {

constexpr uint64_t kValues = 1 << 16;

// Sums of four uniform numbers, about as normal as weights are; every 64 values have another size.
const std::vector<float>& weights() {
  static const std::vector<float> values = [] {
    std::mt19937 random(20);
    std::vector<float> made(kValues);
    for (uint64_t i = 0; i < kValues; ++i) {
      int32_t sum = 0;
      for (int k = 0; k < 4; ++k) sum += static_cast<int32_t>(random() >> 16) - 32768;
      const auto size = static_cast<float>(1 + i / 64 * 7 % 11);
      made[i] = size * static_cast<float>(sum) * 0x1p-22f;
    }
    return made;
  }();
  return values;
}

std::vector<uint8_t> quantized(DType dtype, const std::vector<float>& values) {
  std::vector<uint8_t> bytes(dtype_bytes(dtype, values.size()));
  quantize(dtype, values.data(), values.size(), bytes.data());
  return bytes;
}

std::vector<float> dequantized(DType dtype, const std::vector<uint8_t>& bytes, uint64_t n) {
  TensorView tensor;
  tensor.dtype = dtype;
  tensor.shape = {n};
  tensor.data = bytes.data();
  tensor.bytes = bytes.size();
  return read_f32(tensor);
}

double squared_error(DType dtype, const std::vector<float>& values) {
  const std::vector<float> back = dequantized(dtype, quantized(dtype, values), values.size());
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double off = double{back[i]} - double{values[i]};
    sum += off * off;
  }
  return sum;
}

// FNV-1a.
uint64_t hash(const std::vector<uint8_t>& bytes) {
  uint64_t value = 0xcbf29ce484222325;
  for (const uint8_t byte : bytes) value = (value ^ byte) * 0x100000001b3;
  return value;
}

// Of ggml_quantize_chunk in ggml 0.13.1 (the library in the PyPI package pywhispercpp 1.5.1) for
// weights(), without an importance matrix.
struct Golden {
  DType dtype;
  double squared_error;
  uint64_t hash;  // 0: another rule
};
const Golden kGolden[] = {
    {DType::kF16, 1.04876e-05, 0xdb540ee58114c87b},
    {DType::kBF16, 0.000673299, 0x39a4f6f88aaeef03},
    {DType::kQ4_0, 1.61565, 0xfebf453ab5ac6f57},
    {DType::kQ4_1, 1.3951, 0x51f0e4b6414964ed},
    {DType::kQ5_0, 0.394138, 0xf7d6286ffaaac88c},
    {DType::kQ5_1, 0.322304, 0x5f8bdbc26633b9c2},
    {DType::kQ8_0, 0.00630898, 0x1eb7cba59d05ab0d},
    {DType::kQ2_K, 20.3612, 0},
    {DType::kQ3_K, 5.16252, 0},
    {DType::kQ4_K, 1.15346, 0},
    {DType::kQ5_K, 0.297357, 0},
    {DType::kQ6_K, 0.0704756, 0},
    {DType::kIQ4_NL, 1.31732, 0},
};

TEST(Quantize, GivesGgmlsBytesWhereTheRuleIsTheSame) {
  for (const Golden& golden : kGolden) {
    if (golden.hash == 0) continue;
    EXPECT_EQ(hash(quantized(golden.dtype, weights())), golden.hash)
        << dtype_descriptor(golden.dtype).name;
  }
}

TEST(Quantize, HasNoLargerErrorThanGgml) {
  for (const Golden& golden : kGolden) {
    // iq4_nl minimizes an error weighted by x^2; the plain one may be 1% above.
    const double allowed = golden.dtype == DType::kIQ4_NL ? 1.01 : 1.0001;
    EXPECT_LE(squared_error(golden.dtype, weights()), golden.squared_error * allowed)
        << dtype_descriptor(golden.dtype).name;
  }
}

TEST(Quantize, CoversEveryFormatOfTheTable) {
  const std::vector<DType> formats = quantizer_formats();
  EXPECT_EQ(formats.size(), std::size(kGolden) + 1);  // and f32
  for (const DType dtype : formats) EXPECT_TRUE(has_quantizer(dtype));
  EXPECT_FALSE(has_quantizer(DType::kI8));
  EXPECT_THROW(quantize(DType::kI8, weights().data(), 256, nullptr), Error);
}

TEST(Quantize, GivesTheSameBytesWithEveryInstructionSet) {
  std::vector<std::vector<uint8_t>> expected;
  for (const DType dtype : quantizer_formats()) expected.push_back(quantized(dtype, weights()));
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t left = supported; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(quantized(quantizer_formats()[i], weights()), expected[i])
          << hwy::TargetName(left & -left) << " " << i;
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Quantize, KeepsWhatTheFormatCanHold) {
  for (const DType dtype : quantizer_formats()) {
    const std::vector<float> once = dequantized(dtype, quantized(dtype, weights()), kValues);
    // A second pass finds nearly the same scales again.
    EXPECT_LE(squared_error(dtype, once), 0.02 * squared_error(dtype, weights()) + 1e-12)
        << dtype_descriptor(dtype).name;
  }
}

TEST(Quantize, KeepsZerosAndEqualNumbers) {
  for (const DType dtype : quantizer_formats()) {
    for (const float value : {0.0f, 1.0f, -0.5f, 1e-30f}) {
      const std::vector<float> values(512, value);
      const std::vector<float> back = dequantized(dtype, quantized(dtype, values), 512);
      for (const float found : back) {
        ASSERT_NEAR(found, value, 0.01f * std::fabs(value) + 1e-29f)
            << dtype_descriptor(dtype).name;
      }
    }
  }
}

TEST(Quantize, HandlesBlocksThatDoNotFillAVector) {
  const std::vector<float> few(weights().begin(), weights().begin() + 5 * 32);
  const std::vector<uint8_t> all = quantized(DType::kIQ4_NL, weights());
  const std::vector<uint8_t> bytes = quantized(DType::kIQ4_NL, few);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), all.begin()));
}

RowReader rows_of(const std::vector<float>& values, uint64_t n_columns) {
  return [&values, n_columns](uint64_t first, uint64_t n_rows, float* out) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(first * n_columns), n_rows * n_columns,
                out);
  };
}

TEST(QuantizeRows, GivesTheSameBytesOnAnyNumberOfThreads) {
  const std::vector<uint8_t> expected = quantized(DType::kQ4_K, weights());
  for (const uint32_t threads : {1u, 3u}) {
    std::vector<uint8_t> bytes(expected.size());
    quantize_rows("model", DType::kQ4_K, 0, kValues / 512, 512, rows_of(weights(), 512), threads,
                  bytes.data());
    EXPECT_EQ(bytes, expected);
  }
}

TEST(QuantizeRows, NamesTheNumberThatAFormatCannotHold) {
  std::vector<float> values(kValues, 1);
  values[3 * 512 + 7] = std::numeric_limits<float>::quiet_NaN();
  std::vector<uint8_t> bytes(kValues * 4);
  try {
    quantize_rows("model.gguf: tensor a", DType::kQ8_0, 0, kValues / 512, 512, rows_of(values, 512),
                  1, bytes.data());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "model.gguf: tensor a: expected numbers of at most 65504 for format q8_0, found "
                 "nan in row 3, column 7");
  }
  values[3 * 512 + 7] = 1e20f;
  EXPECT_THROW(quantize_rows("model", DType::kF16, 0, kValues / 512, 512, rows_of(values, 512), 1,
                             bytes.data()),
               Error);
  quantize_rows("model", DType::kBF16, 0, kValues / 512, 512, rows_of(values, 512), 1,
                bytes.data());
}

}  // namespace
}  // namespace vesper::quantize_test

// Every block format compared with a dequantizer that reads a block in the order of ggml's
// reference code (ggml-quants.c, dequantize_row_*).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "error/error.h"
#include "llm/dtype/quantized_row.h"
#include "llm/dtype/tensor_view.h"

namespace vesper::block_formats_test {
namespace {

using Block = std::vector<uint8_t>;

double half(const Block& block, size_t at) {
  const int bits = block[at] | block[at + 1] << 8;
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

int as_signed(int byte) { return byte > 127 ? byte - 256 : byte; }

std::vector<double> plain_q2_k(const Block& b) {
  std::vector<double> out;
  const double d = half(b, 80), dmin = half(b, 82);
  size_t scale = 0;
  for (size_t q = 16; q < 80; q += 32) {
    for (int shift = 0; shift < 8; shift += 2) {
      for (size_t part = 0; part < 32; part += 16, ++scale) {
        for (size_t l = 0; l < 16; ++l) {
          out.push_back(d * (b[scale] & 15) * (b[q + part + l] >> shift & 3) -
                        dmin * (b[scale] >> 4));
        }
      }
    }
  }
  return out;
}

std::vector<double> plain_q3_k(const Block& b) {
  // Unpacks the 16 scales to bytes, four at a time as 32-bit words.
  std::array<uint32_t, 4> words{};
  std::memcpy(words.data(), b.data() + 96, 12);
  const uint32_t low = 0x0f0f0f0f, high = 0x03030303, tops = words[2];
  words[2] = (words[0] >> 4 & low) | (tops >> 4 & high) << 4;
  words[3] = (words[1] >> 4 & low) | (tops >> 6 & high) << 4;
  words[0] = (words[0] & low) | (tops & high) << 4;
  words[1] = (words[1] & low) | (tops >> 2 & high) << 4;
  std::array<uint8_t, 16> scales{};
  std::memcpy(scales.data(), words.data(), 16);

  std::vector<double> out;
  const double d = half(b, 108);
  size_t scale = 0;
  int mask = 1;
  for (size_t q = 32; q < 96; q += 32) {
    for (int shift = 0; shift < 8; shift += 2, mask <<= 1) {
      for (size_t part = 0; part < 32; part += 16, ++scale) {
        for (size_t l = part; l < part + 16; ++l) {
          const int value = (b[q + l] >> shift & 3) - (b[l] & mask ? 0 : 4);
          out.push_back(d * (scales[scale] - 32) * value);
        }
      }
    }
  }
  return out;
}

// q4_k and q5_k: 64 elements at a time, the low nibbles before the high ones.
std::vector<double> plain_q45_k(const Block& b, size_t qs, bool has_high) {
  const auto pair = [&](int k) -> std::array<int, 2> {
    const uint8_t* s = b.data() + 4;
    if (k < 4) return {s[k] & 63, s[k + 4] & 63};
    return {(s[k + 4] & 15) | (s[k - 4] >> 6) << 4, (s[k + 4] >> 4) | (s[k] >> 6) << 4};
  };
  std::vector<double> out;
  const double d = half(b, 0), dmin = half(b, 2);
  for (int run = 0; run < 8; ++run) {
    const auto [scale, min] = pair(run);
    for (size_t l = 0; l < 32; ++l) {
      const int byte = b[qs + 32 * static_cast<size_t>(run / 2) + l];
      int value = run % 2 == 0 ? byte & 15 : byte >> 4;
      if (has_high && (b[16 + l] & 1 << run)) value += 16;
      out.push_back(d * scale * value - dmin * min);
    }
  }
  return out;
}

std::vector<double> plain_q6_k(const Block& b) {
  std::vector<double> out(256);
  const double d = half(b, 208);
  for (size_t n = 0; n < 2; ++n) {
    const uint8_t* ql = b.data() + 64 * n;
    const uint8_t* qh = b.data() + 128 + 32 * n;
    const uint8_t* sc = b.data() + 192 + 8 * n;
    for (size_t l = 0; l < 32; ++l) {
      const std::array<int, 4> q = {
          (ql[l] & 15) | (qh[l] & 3) << 4, (ql[l + 32] & 15) | (qh[l] >> 2 & 3) << 4,
          ql[l] >> 4 | (qh[l] >> 4 & 3) << 4, ql[l + 32] >> 4 | (qh[l] >> 6) << 4};
      for (size_t k = 0; k < 4; ++k) {
        out[128 * n + 32 * k + l] = d * as_signed(sc[l / 16 + 2 * k]) * (q[k] - 32);
      }
    }
  }
  return out;
}

// The older formats, 32 elements per block: an optional minimum, optional fifth bits, then nibbles;
// the low ones are the first 16 elements.
std::vector<double> plain_nibbles(const Block& b, bool has_min, bool has_high, int bias) {
  size_t at = 2;
  const double min = has_min ? half(b, at) : 0;
  if (has_min) at += 2;
  const size_t high = at;
  if (has_high) at += 4;
  std::vector<double> out;
  for (size_t i = 0; i < 32; ++i) {
    int value = i < 16 ? b[at + i] & 15 : b[at + i - 16] >> 4;
    if (has_high && (b[high + i / 8] & 1 << i % 8)) value += 16;
    out.push_back(half(b, 0) * (value - bias) + min);
  }
  return out;
}

std::vector<double> plain_q8_0(const Block& b) {
  std::vector<double> out;
  for (size_t i = 0; i < 32; ++i) out.push_back(half(b, 0) * as_signed(b[2 + i]));
  return out;
}

constexpr std::array<int, 16> kUneven = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

std::vector<double> plain_iq4_nl(const Block& b) {
  std::vector<double> out;
  for (size_t i = 0; i < 32; ++i) {
    out.push_back(half(b, 0) * kUneven.at(i < 16 ? b[2 + i] & 15 : b[2 + i - 16] >> 4));
  }
  return out;
}

std::vector<double> plain_iq4_xs(const Block& b) {
  std::vector<double> out;
  const int high = b[2] | b[3] << 8;
  for (size_t run = 0; run < 8; ++run) {
    const int low = run % 2 == 0 ? b[4 + run / 2] & 15 : b[4 + run / 2] >> 4;
    const int scale = low + 16 * (high >> (2 * run) & 3) - 32;
    for (size_t i = 0; i < 32; ++i) {
      const int byte = b[8 + 16 * run + i % 16];
      out.push_back(half(b, 0) * scale * kUneven.at(i < 16 ? byte & 15 : byte >> 4));
    }
  }
  return out;
}

// OCP Microscaling Formats: sign, two bits of exponent with bias 1, one bit of fraction.
double e2m1(int code) {
  const int exponent = code >> 1 & 3;
  const double magnitude =
      exponent == 0 ? 0.5 * (code & 1) : std::ldexp(1 + 0.5 * (code & 1), exponent - 1);
  return code & 8 ? -magnitude : magnitude;
}

std::vector<double> plain_mxfp4(const Block& b) {
  std::vector<double> out;
  for (size_t i = 0; i < 32; ++i) {
    const int code = i < 16 ? b[1 + i] & 15 : b[1 + i - 16] >> 4;
    out.push_back(std::ldexp(e2m1(code), b[0] - 127));
  }
  return out;
}

// dequantize_row_tq1_0: digit n of byte q is the highest base-3 digit of q * 3^n modulo 256.
std::vector<double> plain_tq1_0(const Block& b) {
  std::vector<double> out;
  const auto append = [&](size_t first, size_t n_bytes, int n_digits) {
    int power = 1;
    for (int digit = 0; digit < n_digits; ++digit, power *= 3) {
      for (size_t at = first; at < first + n_bytes; ++at) {
        out.push_back(half(b, 52) * ((b[at] * power % 256 * 3 >> 8) - 1));
      }
    }
  };
  append(0, 32, 5);
  append(32, 16, 5);
  append(48, 4, 4);
  return out;
}

std::vector<double> plain_tq2_0(const Block& b) {
  std::vector<double> out;
  for (size_t i = 0; i < 256; ++i) {
    out.push_back(half(b, 64) * ((b[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3) - 1));
  }
  return out;
}

struct Format {
  DType dtype;
  std::vector<size_t> halves;  // byte offsets of f16 numbers in a block
  std::function<std::vector<double>(const Block&)> plain;
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {DType::kQ2_K, {80, 82}, plain_q2_k},
      {DType::kQ3_K, {108}, plain_q3_k},
      {DType::kQ4_K, {0, 2}, [](const Block& b) { return plain_q45_k(b, 16, false); }},
      {DType::kQ5_K, {0, 2}, [](const Block& b) { return plain_q45_k(b, 48, true); }},
      {DType::kQ6_K, {208}, plain_q6_k},
      {DType::kQ4_0, {0}, [](const Block& b) { return plain_nibbles(b, false, false, 8); }},
      {DType::kQ4_1, {0, 2}, [](const Block& b) { return plain_nibbles(b, true, false, 0); }},
      {DType::kQ5_0, {0}, [](const Block& b) { return plain_nibbles(b, false, true, 16); }},
      {DType::kQ5_1, {0, 2}, [](const Block& b) { return plain_nibbles(b, true, true, 0); }},
      {DType::kQ8_0, {0}, plain_q8_0},
      {DType::kIQ4_NL, {0}, plain_iq4_nl},
      {DType::kIQ4_XS, {0}, plain_iq4_xs},
      {DType::kMXFP4, {}, plain_mxfp4},
      {DType::kTQ1_0, {52}, plain_tq1_0},
      {DType::kTQ2_0, {64}, plain_tq2_0},
  };
  return all;
}

TEST(BlockFormats, EqualAPlainDequantizer) {
  std::mt19937 random(1);
  for (const Format& format : formats()) {
    const DTypeDescriptor& row = dtype_descriptor(format.dtype);
    SCOPED_TRACE(row.name);
    constexpr size_t kBlocks = 50;
    // One byte before the blocks, because blocks need not be aligned.
    std::vector<uint8_t> bytes(1 + kBlocks * row.block_bytes);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    for (size_t block = 0; block < kBlocks; ++block) {
      for (const size_t at : format.halves) {
        bytes[1 + block * row.block_bytes + at + 1] &= 0xbb;  // no infinity, no NaN
      }
      if (format.dtype == DType::kMXFP4) bytes[1 + block * row.block_bytes] &= 0xbf;  // within f32
    }
    std::vector<float> out(kBlocks * row.block, NAN);
    TensorView tensor;
    tensor.dtype = format.dtype;
    tensor.shape = {out.size()};
    tensor.data = bytes.data() + 1;
    read_f32(tensor, out.data());
    for (size_t block = 0; block < kBlocks; ++block) {
      const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(1 + block * row.block_bytes);
      const auto expected = format.plain(Block(first, first + row.block_bytes));
      ASSERT_EQ(expected.size(), row.block);
      double largest = 0;
      for (const double value : expected) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < row.block; ++i) {
        ASSERT_NEAR(out[block * row.block + i], expected[i], 1e-6 * largest) << "element " << i;
      }
    }
  }
}

// Rows of different formats that one product joins.
TEST(BlockFormats, RowsInACommonFormatKeepTheirValues) {
  std::mt19937 random(2);
  constexpr uint32_t kColumns = 512;
  for (const auto& [a, b] : {std::pair{DType::kQ4_0, DType::kQ4_1}, {DType::kQ6_K, DType::kQ5_0}}) {
    std::vector<std::vector<uint8_t>> bytes;
    std::vector<TensorView> tensors;
    for (const DType dtype : {a, b}) {
      std::vector<uint8_t>& data = bytes.emplace_back(dtype_bytes(dtype, kColumns));
      const uint32_t block_bytes = dtype_descriptor(dtype).block_bytes;
      for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
      for (const Format& format : formats()) {
        for (size_t at = 0; format.dtype == dtype && at < data.size(); at += block_bytes) {
          for (const size_t half : format.halves) data[at + half + 1] &= 0xbb;
        }
      }
      TensorView& tensor = tensors.emplace_back();
      tensor.dtype = dtype;
      tensor.shape = {1, kColumns};
    }
    for (size_t i = 0; i < 2; ++i) tensors[i].data = bytes[i].data();
    const BlockFormat common = *block_format(MatrixSource{{&tensors[0], &tensors[1]}});
    for (const TensorView& tensor : tensors) {
      std::vector<float> expected(kColumns);
      read_f32(tensor, expected.data());
      QuantizedRow row;
      read_quantized_row(tensor, 0, common, row);
      for (uint32_t i = 0; i < kColumns; ++i) {
        const uint32_t group = i / common.group;
        const float scale = std::bit_cast<float>(row.scales[group]);
        const float minimum = std::bit_cast<float>(row.minimums[group]);
        const float limit = 1e-5f * (std::abs(minimum) + std::abs(scale) * 64);
        ASSERT_NEAR(scale * static_cast<float>(row.codes[i]) + minimum, expected[i], limit) << i;
      }
    }
  }
}

std::vector<float> scaled(float scale, std::vector<float> values) {
  for (float& value : values) value *= scale;
  return values;
}

TEST(BlockFormats, HaveTheValuesOfGguf) {
  // Made with PyPI's gguf 0.19.0: gguf.quants.dequantize of a block whose byte i is (i * 37 + 11) %
  // 256, except that mxfp4 has the scale 120 and iq4_xs the f16 0.125.
  const std::vector<std::tuple<DType, uint8_t, uint8_t, std::vector<float>>> blocks = {
      {DType::kIQ4_XS, 0, 48, {8.125f,   2.75f,    -1.625f,  -11.125f, -11.125f, 72.625f, 30.625f,
                               -21.875f, -21.875f, -21.875f, 156.0f,   73.5f,    33.0f,   33.0f,
                               -34.5f,   63.5f,    41.5f,    41.5f,    41.5f,    59.625f, 127.125f,
                               100.125f, 100.125f, 1.75f,    66.5f,    155.75f,  43.75f,  43.75f,
                               -37.5f,   93.75f,   -131.25f, -82.5f,   130.0f,   44.0f,   -26.0f,
                               208.0f,   208.0f}},
      {DType::kMXFP4, 120, 0, {0.0f, 0.01171875f, 0.03125f, -0.03125f, -0.03125f}},
      {DType::kTQ1_0, 201, 0,
       scaled(-0.284912109375f,
              {1,  -1, -1, -1, -1, 0, 0, 0, 0, 0,  -1, -1, 0,  0,  1,  -1, 0, 1, -1,
               -1, 1,  1,  1,  1,  1, 1, 0, 0, -1, -1, 1,  -1, -1, -1, -1, 0, 0})},
      {DType::kTQ2_0, 201, 0,
       scaled(8792, {0,  1, 0, -1, 2,  1,  2, -1, -1, 0, 1,  1,  1,  2, 0, 0, 0, 0, 0,
                     -1, 2, 1, 0,  -1, -1, 0, 1,  2,  2, -1, -1, -1, 1, 1, 1, 1, 1})},
  };
  for (const auto& [dtype, first, second, expected] : blocks) {
    Block block(dtype_descriptor(dtype).block_bytes);
    for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<uint8_t>(i * 37 + 11);
    block[0] = first;
    if (second != 0) block[1] = second;
    TensorView tensor;
    tensor.dtype = dtype;
    tensor.shape = {dtype_descriptor(dtype).block};
    tensor.data = block.data();
    const std::vector<float> found = read_f32(tensor);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found[i * 7], expected[i]) << i * 7;
  }
}

TEST(BlockFormats, ReadSubnormalPowersOfTwo) {
  const std::pair<uint8_t, float> scales[] = {{0, 0x1p-127f}, {1, 0x1p-126f}, {2, 0x1p-125f},
                                              {127, 1.0f},    {128, 2.0f},    {254, 0x1p127f}};
  for (const auto& [exponent, scale] : scales) {
    const std::vector<uint8_t> block = {exponent, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    TensorView tensor;
    tensor.dtype = DType::kMXFP4;
    tensor.shape = {32};
    tensor.data = block.data();
    EXPECT_EQ(read_f32(tensor)[0], scale);
  }
}

TEST(BlockFormats, HaveTheTypeAndBlockSizeOfGgml) {
  // From ggml.h (enum ggml_type) and the static_asserts on block sizes in ggml-common.h.
  const std::vector<std::tuple<int32_t, DType, uint32_t, uint32_t>> facts = {
      {2, DType::kQ4_0, 32, 18},    {3, DType::kQ4_1, 32, 20},    {6, DType::kQ5_0, 32, 22},
      {7, DType::kQ5_1, 32, 24},    {8, DType::kQ8_0, 32, 34},    {10, DType::kQ2_K, 256, 84},
      {11, DType::kQ3_K, 256, 110}, {12, DType::kQ4_K, 256, 144}, {13, DType::kQ5_K, 256, 176},
      {14, DType::kQ6_K, 256, 210}, {20, DType::kIQ4_NL, 32, 18}, {23, DType::kIQ4_XS, 256, 136},
      {39, DType::kMXFP4, 32, 17},  {30, DType::kBF16, 1, 2},     {34, DType::kTQ1_0, 256, 54},
      {35, DType::kTQ2_0, 256, 66}};
  for (const auto& [number, dtype, block, bytes] : facts) {
    const DTypeDescriptor* row = find_ggml_dtype(number);
    ASSERT_NE(row, nullptr) << number;
    EXPECT_EQ(row->dtype, dtype);
    EXPECT_EQ(row->block, block);
    EXPECT_EQ(row->block_bytes, bytes);
    EXPECT_EQ(&dtype_descriptor(dtype), row);
    EXPECT_EQ(find_dtype(row->name), row);
  }
}

TEST(BlockFormats, RefuseIncompleteBlocksAndOverflow) {
  EXPECT_EQ(dtype_bytes(DType::kQ4_K, 512), 288u);
  EXPECT_THROW(dtype_bytes(DType::kQ4_K, 288), Error);
  EXPECT_THROW(dtype_bytes(DType::kF32, uint64_t{1} << 62), Error);
}

}  // namespace
}  // namespace vesper::block_formats_test

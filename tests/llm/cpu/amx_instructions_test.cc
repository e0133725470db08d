// The arithmetic and the checks of tile instructions: of the CPU's, where it has AMX, else of the
// software model. Expected values follow from the operations in Intel's manual (amx_model.h).
#include <gtest/gtest.h>
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

#include "llm/cpu/amx_tile.h"
#include "llm/dtype/number_conversion.h"
#include "tests/llm/cpu/amx_model.h"

#define AMX_TARGET __attribute__((target("amx-tile,amx-bf16,amx-int8")))

namespace vesper::amx_instructions_test {
namespace {

// Tile 0: 2 rows of 3 sums. Tile 1: 2 rows of 2 elements. Tile 2: 2 rows of 3 elements.
constexpr TileConfig kSmall = {.row_bytes = {12, 8, 12}, .rows = {2, 2, 2}};

class AmxInstructions : public ::testing::Test {
 protected:
  const bool is_model_ = testing::model_amx();
};
using AmxModel = AmxInstructions;

// Rows of 64 bytes, filled with 0xAA.
struct Memory {
  alignas(64) uint8_t bytes[16][64];
  Memory() { std::fill_n(&bytes[0][0], sizeof bytes, uint8_t{0xAA}); }
};

AMX_TARGET void store_loaded(const Memory& from, Memory& to) {
  _tile_loadconfig(&kSmall);
  _tile_loadd(0, from.bytes, 64);
  _tile_stored(0, to.bytes, 64);
  _tile_release();
}

TEST_F(AmxInstructions, CopyTheBytesOfTheConfiguration) {
  Memory from, to;
  for (int i = 0; i < 16 * 64; ++i) from.bytes[i / 64][i % 64] = static_cast<uint8_t>(i % 119);
  store_loaded(from, to);
  for (int r = 0; r < 16; ++r) {
    for (int i = 0; i < 64; ++i) {
      EXPECT_EQ(to.bytes[r][i], r < 2 && i < 12 ? from.bytes[r][i] : 0xAA) << r << ", " << i;
    }
  }
}

// sums [2][3] += rows [2][2] * columns [2][3] in elements of 32 bits.
AMX_TARGET void multiply_bf16(const void* rows, const void* columns, float (&sums)[2][3]) {
  _tile_loadconfig(&kSmall);
  _tile_loadd(0, sums, 12);
  _tile_loadd(1, rows, 8);
  _tile_loadd(2, columns, 12);
  _tile_dpbf16ps(0, 1, 2);
  _tile_stored(0, sums, 12);
  _tile_release();
}
AMX_TARGET void multiply_int8(const void* rows, const void* columns, int32_t (&sums)[2][3]) {
  _tile_loadconfig(&kSmall);
  _tile_loadd(0, sums, 12);
  _tile_loadd(1, rows, 8);
  _tile_loadd(2, columns, 12);
  _tile_dpbssd(0, 1, 2);
  _tile_stored(0, sums, 12);
  _tile_release();
}

TEST_F(AmxInstructions, MultiplyPairsOfBf16) {
  uint16_t rows[2][4], columns[2][6];
  float expected[2][3], sums[2][3];
  for (int i = 0; i < 8; ++i) rows[i / 4][i % 4] = f32_to_bf16(static_cast<float>(i + 1));
  for (int i = 0; i < 12; ++i) columns[i / 6][i % 6] = f32_to_bf16(static_cast<float>(3 - i));
  for (int m = 0; m < 2; ++m) {
    for (int n = 0; n < 3; ++n) {
      sums[m][n] = expected[m][n] = static_cast<float>(100 * m + n);
      for (int k = 0; k < 4; ++k) {
        expected[m][n] += static_cast<float>((4 * m + k + 1) * (3 - (k / 2 * 6 + 2 * n + k % 2)));
      }
    }
  }
  multiply_bf16(rows, columns, sums);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(sums[i / 3][i % 3], expected[i / 3][i % 3]) << i;
}

TEST_F(AmxInstructions, AddEvenAndOddElementsApart) {
  // Added in order, 1 would vanish beside 2^24.
  const uint16_t rows[2][4] = {
      {f32_to_bf16(0x1p24f), f32_to_bf16(1), f32_to_bf16(-0x1p24f), f32_to_bf16(1)}};
  uint16_t columns[2][6];
  std::fill_n(&columns[0][0], 12, f32_to_bf16(1));
  float sums[2][3] = {};
  multiply_bf16(rows, columns, sums);
  for (const float sum : sums[0]) EXPECT_EQ(sum, 2.0f);
}

TEST_F(AmxInstructions, RoundOnceForAProductAndItsSum) {
  // The product 1.0000305 * 2^127 * 2 alone would be infinite.
  const uint16_t rows[2][4] = {{f32_to_bf16(-0x1.fep127f), 0, f32_to_bf16(0x1p127f), 0}};
  const uint16_t columns[2][6] = {{f32_to_bf16(1), 0, f32_to_bf16(1), 0, f32_to_bf16(1), 0},
                                  {f32_to_bf16(2), 0, f32_to_bf16(2), 0, f32_to_bf16(2), 0}};
  float sums[2][3] = {};
  multiply_bf16(rows, columns, sums);
  for (const float sum : sums[0]) EXPECT_EQ(sum, 0x1p120f);
}

TEST_F(AmxInstructions, TakeDenormalNumbersForZero) {
  constexpr float kLeast = std::numeric_limits<float>::min();
  const float denormal = kLeast / 2;
  // A denormal factor, a product that is denormal, and a denormal sum.
  const uint16_t rows[2][4] = {{f32_to_bf16(denormal), 0, 0, 0}, {f32_to_bf16(kLeast), 0, 0, 0}};
  const uint16_t columns[2][6] = {{f32_to_bf16(8), 0, f32_to_bf16(0.5f), 0, f32_to_bf16(1), 0}};
  float sums[2][3] = {{0, 0, denormal}, {0, 0, -kLeast}};
  multiply_bf16(rows, columns, sums);
  EXPECT_EQ(sums[0][0], 0.0f);
  EXPECT_EQ(sums[0][1], 0.0f);
  EXPECT_EQ(sums[0][2], 0.0f);
  EXPECT_EQ(sums[1][0], 8 * kLeast);
  EXPECT_EQ(sums[1][1], 0.0f);
  EXPECT_EQ(sums[1][2], 0.0f);
}

TEST_F(AmxInstructions, LeaveTheRoundingOfOtherCodeAlone) {
  const uint16_t rows[2][4] = {}, columns[2][6] = {};
  float sums[2][3] = {};
  multiply_bf16(rows, columns, sums);
  volatile float least = std::numeric_limits<float>::min();
  EXPECT_GT(least / 2, 0.0f);
}

TEST_F(AmxInstructions, MultiplyQuadsOfInt8AndWrapAround) {
  int8_t rows[2][8], columns[2][12];
  std::fill_n(&rows[0][0], 16, int8_t{-128});
  std::fill_n(&columns[0][0], 24, int8_t{-128});
  rows[1][0] = 127;
  columns[0][0] = 3;
  int32_t sums[2][3] = {{0, INT32_MAX, 5}, {0, 0, 0}};
  multiply_int8(rows, columns, sums);
  EXPECT_EQ(sums[0][0], 7 * 128 * 128 - 3 * 128);
  EXPECT_EQ(sums[0][1], INT32_MIN + (8 * 128 * 128 - 1));
  EXPECT_EQ(sums[0][2], 5 + 8 * 128 * 128);
  EXPECT_EQ(sums[1][0], 7 * 128 * 128 + 127 * 3);
  EXPECT_EQ(sums[1][1], 7 * 128 * 128 - 127 * 128);
}

AMX_TARGET void configure(const TileConfig& config) {
  // Every byte is written before, as for a constant.
  asm volatile("" ::"m"(config));
  _tile_loadconfig(&config);
  _tile_release();
}
AMX_TARGET void configure_twice() {
  _tile_loadconfig(&kSmall);
  _tile_loadconfig(&kSmall);
}
AMX_TARGET void zero_without_configuration() { _tile_zero(0); }
AMX_TARGET void zero_unconfigured_tile() {
  _tile_loadconfig(&kSmall);
  _tile_zero(3);
}
AMX_TARGET void multiply_exchanged() {
  _tile_loadconfig(&kSmall);
  _tile_dpbf16ps(0, 2, 1);
}

// A CPU answers with a signal, or not at all.
TEST_F(AmxModel, RefusesWhatNoKernelMeans) {
  if (!is_model_) GTEST_SKIP() << "not run: this CPU has AMX, so the model is not used";
  TileConfig config = kSmall;
  configure(config);
  config.palette = 2;
  EXPECT_DEATH(configure(config), "palette 1, found 2");
  config = kSmall;
  config.reserved[3] = 9;
  EXPECT_DEATH(configure(config), "zeros in reserved bytes, found 9");
  config = kSmall;
  config.row_bytes[2] = 65;
  EXPECT_DEATH(configure(config), "at most 64 bytes per row, found 65");
  config = kSmall;
  config.rows[2] = 17;
  EXPECT_DEATH(configure(config), "at most 16 rows, found 17");
  config = kSmall;
  config.rows[2] = 0;
  EXPECT_DEATH(configure(config), "rows and bytes per row, or neither, in tile, found 2");
  EXPECT_DEATH(configure_twice(), "tilerelease after the previous configuration");
  EXPECT_DEATH(zero_without_configuration(), "tilezero: expected configured tiles");
  EXPECT_DEATH(zero_unconfigured_tile(), "rows in the configuration of tile, found 3");
  EXPECT_DEATH(multiply_exchanged(), "tdpbf16ps: expected rows as long as columns, found 12");
}

#ifdef VESPER_ADDRESS_SANITIZED
AMX_TARGET void load_two_rows(const void* rows) {
  _tile_loadconfig(&kSmall);
  _tile_loadd(0, rows, 12);
  _tile_release();
}

TEST_F(AmxModel, ReadsOnlyMemoryInBounds) {
  if (!is_model_) GTEST_SKIP() << "not run: this CPU has AMX, so the model is not used";
  const auto rows = std::make_unique<std::byte[]>(24);
  load_two_rows(rows.get());
  EXPECT_DEATH(load_two_rows(rows.get() + 4), "tileloadd: expected memory in bounds");
}
#endif

}  // namespace
}  // namespace vesper::amx_instructions_test

#include "llm/models/position_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace vesper::position_bias_test {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

// Press et al.: 8 heads have the slopes 2^-1 to 2^-8. Of 12, the last four are between these.
TEST(PositionBias, OfAlibiFallsWithTheDistance) {
  const std::vector<float> bias = alibi_bias(12, 2);
  ASSERT_EQ(bias.size(), 12u * 5);
  EXPECT_THAT(std::vector(bias.begin(), bias.begin() + 5), ElementsAre(-1, -0.5f, 0, -0.5f, -1));
  EXPECT_EQ(bias[7 * 5 + 3], -1.0f / 256);
  EXPECT_THAT(bias[8 * 5 + 3], FloatEq(-0.70710678f));
  EXPECT_THAT(bias[9 * 5 + 3], FloatEq(-0.35355339f));
}

// The first distance of each bucket in transformers 5.23.0, MPNetEncoder.relative_position_bucket.
TEST(PositionBias, OfBucketsIsThatOfTransformers) {
  constexpr uint32_t kReach = 600, kHeads = 3;
  std::vector<float> buckets(32 * kHeads);
  std::iota(buckets.begin(), buckets.end(), 0.0f);
  const std::vector<float> bias = bucket_bias(buckets, kHeads, kReach);
  ASSERT_EQ(bias.size(), kHeads * (2 * kReach + 1));
  const uint32_t firsts[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91, kReach + 1};
  for (uint32_t bucket = 0; bucket < 16; ++bucket) {
    for (uint32_t distance = firsts[bucket]; distance < firsts[bucket + 1]; ++distance) {
      for (uint32_t h = 0; h < kHeads; ++h) {
        const float* own = &bias[h * (2 * kReach + 1) + kReach];
        ASSERT_EQ(own[distance], bucket * kHeads + h) << distance << " before the query";
        if (distance == 0) continue;
        ASSERT_EQ(*(own - distance), (16 + bucket) * kHeads + h) << distance << " after the query";
      }
    }
  }
}

}  // namespace
}  // namespace vesper::position_bias_test

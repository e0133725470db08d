#include "decoder/words/alignment_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <utility>

namespace vesper::alignment_path_test {
namespace {

using testing::ElementsAre;

TEST(StandardizeOverRows, GivesMeanZeroAndDeviationOne) {
  constexpr uint32_t kHeads = 2, kRows = 5, kPositions = 7;
  constexpr size_t kRowStride = 9, kHeadStride = 50;
  std::vector<float> data(kHeads * kHeadStride);
  std::mt19937 random(1);
  for (float& x : data) x = std::uniform_real_distribution<float>(0, 1)(random);
  for (uint32_t r = 0; r < kRows; ++r) data[r * kRowStride + 3] = 0.25f;  // constant
  const std::vector<float> before = data;
  standardize_over_rows({data.data(), kHeadStride, kRowStride, kHeads, kRows, kPositions});
  for (uint32_t h = 0; h < kHeads; ++h) {
    for (uint32_t t = 0; t < kPositions; ++t) {
      double sum = 0, squares = 0;
      for (uint32_t r = 0; r < kRows; ++r) {
        const double x = data[h * kHeadStride + r * kRowStride + t];
        sum += x;
        squares += x * x;
      }
      EXPECT_NEAR(sum, 0, 1e-5);
      EXPECT_NEAR(squares / kRows, h == 0 && t == 3 ? 0 : 1, 1e-4);
    }
  }
  // Elements that are not positions are not changed.
  EXPECT_EQ(data[kPositions], before[kPositions]);
}

TEST(MedianFilter, IsTheMedianOfSevenWithMirroredEnds) {
  std::mt19937 random(2);
  for (const size_t n : {1u, 3u, 4u, 5u, 6u, 7u, 8u, 100u, 1500u}) {
    std::vector<float> in(n), found(n, std::numeric_limits<float>::quiet_NaN());
    for (float& x : in) x = std::normal_distribution<float>()(random);
    median_filter_7(in, found.data());
    for (size_t i = 0; i < n; ++i) {
      if (n < 4) {
        EXPECT_EQ(found[i], in[i]);
        continue;
      }
      std::vector<float> near;
      for (int j = -3; j <= 3; ++j) {
        int at = std::abs(static_cast<int>(i) + j);
        if (at >= static_cast<int>(n)) at = 2 * (static_cast<int>(n) - 1) - at;
        near.push_back(in[static_cast<size_t>(at)]);
      }
      std::sort(near.begin(), near.end());
      EXPECT_EQ(found[i], near[3]) << n << ", " << i;
    }
  }
}

// The greatest sum over all paths, and the positions at which that path enters each row.
std::pair<double, std::vector<uint32_t>> best_way(const std::vector<float>& matrix, uint32_t n_rows,
                                                  uint32_t n_positions) {
  std::pair<double, std::vector<uint32_t>> best{-1e300, {}};
  std::vector<uint32_t> entered(n_rows);
  std::function<void(uint32_t, uint32_t, double)> walk = [&](uint32_t r, uint32_t t, double sum) {
    sum += matrix[r * n_positions + t];
    if (r + 1 == n_rows && t + 1 == n_positions) {
      if (sum > best.first) best = {sum, entered};
      return;
    }
    if (t + 1 < n_positions) walk(r, t + 1, sum);
    if (r + 1 == n_rows) return;
    entered[r + 1] = t;
    walk(r + 1, t, sum);
    if (t + 1 == n_positions) return;
    entered[r + 1] = t + 1;
    walk(r + 1, t + 1, sum);
  };
  walk(0, 0, 0);
  return best;
}

TEST(FirstPositions, AreThoseOfTheBestPath) {
  std::mt19937 random(3);
  for (uint32_t n_rows = 1; n_rows <= 5; ++n_rows) {
    for (uint32_t n_positions = 1; n_positions <= 6; ++n_positions) {
      std::vector<float> matrix(n_rows * n_positions);
      for (float& x : matrix) x = std::normal_distribution<float>()(random);
      EXPECT_EQ(first_positions(matrix, n_rows, n_positions),
                best_way(matrix, n_rows, n_positions).second)
          << n_rows << " x " << n_positions;
    }
  }
}

// openai-whisper, timing.py: dtw_cpu takes a step that is strictly the cheapest, else the next
// position.
TEST(FirstPositions, StayInTheRowWhenStepsAreEquallyGood) {
  EXPECT_THAT(first_positions(std::vector<float>{0, 1, 1, 0}, 2, 2), ElementsAre(0, 0));
}

TEST(FirstPositions, StayInRangeForNaN) {
  const std::vector<float> matrix(12, std::numeric_limits<float>::quiet_NaN());
  for (uint32_t position : first_positions(matrix, 4, 3)) EXPECT_LT(position, 3u);
}

TEST(AlignRows, FollowsTheAttentionOfTheHeads) {
  constexpr uint32_t kHeads = 3, kRows = 6, kPositions = 60;
  std::vector<float> data(kHeads * kRows * kPositions, 0.001f);
  // Row r attends to positions 10 r to 10 r + 9.
  for (uint32_t h = 0; h < kHeads; ++h) {
    for (uint32_t r = 0; r < kRows; ++r) {
      for (uint32_t t = 0; t < 10; ++t) data[(h * kRows + r) * kPositions + 10 * r + t] = 0.1f;
    }
  }
  EXPECT_THAT(
      align_rows({data.data(), kRows * kPositions, kPositions, kHeads, kRows, kPositions}, 1, 4),
      ElementsAre(0, 20, 30, 40));
}

}  // namespace
}  // namespace vesper::alignment_path_test

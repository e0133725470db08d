#include "llm/inspect/tensor_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace vesper::tensor_statistics_test {
namespace {

TensorView view_of(DType dtype, std::vector<uint64_t> shape, const void* data, uint64_t bytes) {
  TensorView view;
  view.dtype = dtype;
  view.shape = std::move(shape);
  view.data = data;
  view.bytes = bytes;
  return view;
}

TEST(TensorStatistics, EqualAPlainLoopForAnyThreads) {
  std::mt19937 random(3);
  std::normal_distribution<float> numbers(1.5f, 2.0f);
  std::vector<float> values(400'001);  // several chunks and a rest
  for (float& value : values) value = numbers(random);
  values[7] = 0;
  values[300'000] = 50;
  values[399'999] = -60;
  double sum = 0;
  for (const float value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const float value : values) squares += (value - mean) * (value - mean);

  const TensorView view =
      view_of(DType::kF32, {values.size()}, values.data(), values.size() * sizeof(float));
  const TensorStatistics one = tensor_statistics({&view}, 1)[0];
  EXPECT_EQ(one.n, values.size());
  EXPECT_EQ(one.min, -60);
  EXPECT_EQ(one.max, 50);
  EXPECT_EQ(one.n_zero, 1u);
  EXPECT_NEAR(one.mean, mean, 1e-9);
  EXPECT_NEAR(one.standard_deviation, std::sqrt(squares / static_cast<double>(values.size())),
              1e-6);
  const TensorStatistics four = tensor_statistics({&view}, 4)[0];
  EXPECT_EQ(one.mean, four.mean) << "the order of summation does not depend on the threads";
}

TEST(TensorStatistics, CountNonFiniteNumbers) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1, NAN, -inf, 3, NAN, inf};
  const TensorView view = view_of(DType::kF32, {2, 3}, values.data(), 24);
  const TensorView nothing = view_of(DType::kF32, {2, 3}, nullptr, 24);
  const auto rows = tensor_statistics({&view, &nothing});
  EXPECT_EQ(rows[0].n_nan, 2u);
  EXPECT_EQ(rows[0].n_infinite, 2u);
  EXPECT_EQ(rows[0].min, 1);
  EXPECT_EQ(rows[0].max, 3);
  EXPECT_EQ(rows[0].mean, 2);
  EXPECT_EQ(rows[1].n, 0u);
}

TEST(TensorStatistics, ApplyTheScaleOfEachRowOfInt8) {
  const std::vector<int8_t> values = {1, -2, 3, 4};
  TensorView view = view_of(DType::kI8, {2, 2}, values.data(), 4);
  view.scale = {0.5f, 10};
  const TensorStatistics row = tensor_statistics({&view})[0];
  EXPECT_EQ(row.min, -1);
  EXPECT_EQ(row.max, 40);
}

TEST(LargestDifferences, AreFoundAnywhereIncludingNaN) {
  std::vector<float> a(300'000, 1.0f), b = a, c = a, d = a;
  b[250'000] = -1.5f;
  c[5] = NAN;
  const auto view = [](const std::vector<float>& values) {
    return view_of(DType::kF32, {values.size()}, values.data(), values.size() * sizeof(float));
  };
  const TensorView va = view(a), vb = view(b), vc = view(c), vd = view(d);
  const auto largest = largest_differences({{&va, &vb}, {&va, &vc}, {&va, &vd}, {&vc, &vc}});
  EXPECT_EQ(largest[0], 2.5);
  EXPECT_TRUE(std::isnan(largest[1]));
  EXPECT_EQ(largest[2], 0);
  EXPECT_EQ(largest[3], 0) << "NaN in both is no difference";
}

}  // namespace
}  // namespace vesper::tensor_statistics_test

#include "llm/vulkan/kernels/weight_layout.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vesper {
namespace {

constexpr uint32_t kOut = 32, kIn = 40, kColumns = 64;  // padded

// Element (row, column) of the file has the f16 bits row * kIn + column + 1.
class WeightOrder : public testing::TestWithParam<uint32_t> {
 protected:
  WeightOrder() : halves_(kOut * kIn) {
    for (size_t i = 0; i < halves_.size(); ++i) halves_[i] = static_cast<uint16_t>(i + 1);
    tensor_.name = tensor_.file_name = "weight";
    tensor_.dtype = DType::kF16;
    tensor_.shape = {kOut, kIn};
    tensor_.data = halves_.data();
    tensor_.bytes = halves_.size() * 2;
  }
  WeightLayout layout(WeightUse use, Compute compute, MatrixKind kind = MatrixKind::kPlain) const {
    return weight_layout({{&tensor_}, kind}, use, compute, GetParam());
  }
  // Checks that stored row i is row file_row(i) of the file.
  template <class FileRow>
  void check(MatrixKind kind, const FileRow& file_row) const {
    const uint32_t side = GetParam();
    const WeightLayout stored = layout(WeightUse::kManyRows, Compute::kF16, kind);
    ASSERT_EQ(stored.matrix_side, side);
    std::vector<uint16_t> found(kOut * kColumns);
    ASSERT_EQ(stored.bytes(), found.size() * 2);
    for (uint32_t first = 0; first < kOut; first += side) {
      write_rows({{&tensor_}, kind}, stored, first, side,
                 reinterpret_cast<std::byte*>(found.data() + first * kColumns), nullptr);
    }
    for (uint32_t i = 0; i < found.size(); ++i) {
      const uint32_t matrix = i / (side * side), element = i % (side * side);
      uint32_t row = element / 8, column = element % 8;
      if (side == 16) {
        const uint32_t lane = element / 8, e = element % 8;
        row = lane / 4 + e / 4 * 8;
        column = e / 2 % 2 * 8 + lane % 4 * 2 + e % 2;
      }
      row = file_row(matrix / (kColumns / side) * side + row);
      column += matrix % (kColumns / side) * side;
      EXPECT_EQ(found[i], column < kIn ? row * kIn + column + 1 : 0) << i;
    }
  }

  std::vector<uint16_t> halves_;
  TensorView tensor_;
};

TEST_P(WeightOrder, IsThatOfTheLanesOfAMatrix) {
  check(MatrixKind::kPlain, [](uint32_t row) { return row; });
}

TEST_P(WeightOrder, HasFourUpRowsAfterFourGates) {
  check(MatrixKind::kGates,
        [](uint32_t row) { return row % 8 / 4 * (kOut / 2) + row / 8 * 4 + row % 4; });
}

TEST_P(WeightOrder, IsOnlyOfProductsOnMatrixUnits) {
  EXPECT_EQ(layout(WeightUse::kAnyRows, Compute::kF16).matrix_side, 0u);
  EXPECT_EQ(layout(WeightUse::kManyRows, Compute::kF32).matrix_side, 0u);
  EXPECT_EQ(layout(WeightUse::kManyRows, Compute::kI8).matrix_side, 0u);
  EXPECT_EQ(layout(WeightUse::kManyRows, Compute::kF16, MatrixKind::kExperts).matrix_side, 0u);
}

INSTANTIATE_TEST_SUITE_P(, WeightOrder, testing::Values(8u, 16u));

}  // namespace
}  // namespace vesper

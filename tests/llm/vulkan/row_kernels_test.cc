#include <cmath>

#include "tests/llm/kernels/plain_pool.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::row_kernels_test {
namespace {

class RowKernels : public VulkanTest {};

TEST_F(RowKernels, EmbedGathersScalesAndAddsThePosition) {
  for (const DType file : {DType::kF32, DType::kF16, DType::kI8}) {
    for (const uint32_t d : {7u, 384u}) {
      constexpr uint32_t kVocabulary = 51, kPositions = 11;
      std::vector<float> weight = random(kVocabulary * d), position = random(kPositions * d);
      const Weight uploaded = upload(weight, kVocabulary, d, file, Compute::kF32);
      const std::vector<Row> rows = {{50, 0, 10, 0}, {0, 3, 0, 0}, {0, -1, 0, 0}, {17, 1, 4, 0}};
      const Operand out = poisoned(rows.size() * d, DType::kF32);
      DispatchTable table;
      emit::embed(table, "embed", {4, d, uploaded.format, 2.5f}, out, store_structs(rows),
                  uploaded.data, store(position, DType::kF32), uploaded.scale);
      run(table);
      const std::vector<float> found = load(out, DType::kF32);
      for (size_t r = 0; r < rows.size(); ++r) {
        if (rows[r].sequence < 0) continue;
        for (uint32_t i = 0; i < d; ++i) {
          const float wanted = weight[static_cast<uint32_t>(rows[r].token) * d + i] * 2.5f +
                               position[static_cast<uint32_t>(rows[r].position) * d + i];
          ASSERT_NEAR(found[r * d + i], wanted, 1e-5 * std::abs(wanted) + 1e-6);
        }
      }
    }
  }
}

TEST_F(RowKernels, NormCentresAndScalesEachRow) {
  for (const uint32_t d : {1u, 7u, 384u, 1280u, 1500u}) {
    for (const uint32_t kind : {kNormLayer, kNormRms}) {
      for (const DType out_dtype : {DType::kF32, DType::kF16}) {
        constexpr uint32_t kInRows = 6;
        std::vector<float> in = random(kInRows * d, 3.0f), norm_weight = random(d),
                           bias = random(d);
        for (float& value : in) value += 1.5f;
        const std::vector<uint32_t> index = {5, 0, 5};
        for (const bool indexed : {false, true}) {
          const uint32_t n = indexed ? 3 : kInRows;
          const Operand out = poisoned(size_t{n} * d, out_dtype);
          DispatchTable table;
          emit::norm(table, "norm",
                     {n, d, 1e-5f, kind, static_cast<uint32_t>(out_dtype), kDTypeF32, d}, out,
                     store(in, DType::kF32), store(norm_weight, DType::kF32),
                     indexed ? Operand{} : store(bias, DType::kF32),
                     indexed ? store_structs(index) : Operand{});
          run(table);
          const std::vector<float> found = load(out, out_dtype);
          for (uint32_t r = 0; r < n; ++r) {
            const float* row = &in[size_t{indexed ? index[r] : r} * d];
            double mean = 0, square = 0;
            for (uint32_t i = 0; i < d; ++i) mean += row[i];
            mean = kind == kNormLayer ? mean / d : 0;
            for (uint32_t i = 0; i < d; ++i) square += (row[i] - mean) * (row[i] - mean);
            const double scale = 1 / std::sqrt(square / d + 1e-5);
            for (uint32_t i = 0; i < d; ++i) {
              const double normed = (row[i] - mean) * scale * norm_weight[i];
              const double wanted = normed + (indexed ? 0.0 : bias[i]);
              const double size = std::abs(normed) + std::abs(bias[i]) + std::abs(norm_weight[i]);
              ASSERT_LE(std::abs(found[r * d + i] - wanted),
                        (out_dtype == DType::kF16 ? 2e-3 : 1e-5) * size)
                  << "d " << d << ", row " << r;
            }
          }
        }
      }
    }
  }
}

TEST_F(RowKernels, NormMayReplaceItsInput) {
  for (const uint32_t d : {7u, 384u}) {
    constexpr uint32_t kRows = 40;
    std::vector<float> in = random(kRows * d), norm_weight = random(d);
    const Operand weights = store(norm_weight, DType::kF32), x = store(in, DType::kF32);
    const Operand out = poisoned(kRows * d, DType::kF32);
    const NormParams params{kRows, d, 1e-12f, kNormLayer, kDTypeF32, kDTypeF32, d};
    DispatchTable table;
    emit::norm(table, "norm", params, out, x, weights, {}, {});
    emit::norm(table, "in place", params, x, x, weights, {}, {});
    run(table);
    EXPECT_EQ(load(x, DType::kF32), load(out, DType::kF32));
  }
}

TEST_F(RowKernels, PoolMakesOneVectorOfTheRowsOfEachSequence) {
  const std::vector<uint32_t> starts = {0, 3, 3, 4, 60, 61};
  const uint32_t n_sequences = 5, d = 300;
  std::vector<float> in = random(70 * d);
  const Operand rows = store(in, DType::kF32);
  for (const uint32_t kind : {kPoolMean, kPoolFirst, kPoolLast}) {
    for (const uint32_t normalize : {0u, 1u}) {
      for (const uint32_t n_out : {d, 16u}) {
        const Operand out = poisoned(n_sequences * n_out, DType::kF32);
        DispatchTable table;
        emit::pool(table, "pool", {n_sequences, d, n_out, kind, normalize, kDTypeF32}, out, rows,
                   store_structs(starts));
        run(table);
        const std::vector<float> found = load(out, DType::kF32);
        const std::vector<double> wanted = plain_pool(in, starts, d, n_out, kind, normalize != 0);
        for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-5) << i;
      }
    }
  }
}

TEST_F(RowKernels, PoolCopiesOneRowOfEachSequenceInItsFormat) {
  const std::vector<uint32_t> starts = {0, 3, 3, 4, 60, 61};
  const uint32_t n_sequences = 5, d = 300;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    std::vector<float> in = random(70 * d);
    const Operand rows = store(in, dtype);
    for (const uint32_t kind : {kPoolFirst, kPoolLast}) {
      for (const bool has_starts : {true, false}) {
        const Operand out = poisoned(n_sequences * d, dtype);
        DispatchTable table;
        emit::pool(table, "pool", {n_sequences, d, d, kind, 0, static_cast<uint32_t>(dtype)}, out,
                   rows, has_starts ? store_structs(starts) : Operand{});
        run(table);
        const std::vector<double> wanted = plain_pool(
            load(rows, dtype), has_starts ? starts : std::vector<uint32_t>{0, 1, 2, 3, 4, 5}, d, d,
            kind, false);
        const std::vector<float> found = load(out, dtype);
        for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], wanted[i]) << i;
      }
    }
  }
}

TEST_F(RowKernels, RangeProbabilitiesAreASoftmaxOverTheRange) {
  constexpr uint32_t kRows = 3, kStride = 51865, kFirst = 50, kCount = 51000;
  std::vector<float> logits = random(size_t{kRows} * kStride, 4.0f);
  logits[10] = 1000.0f;  // outside the range
  const Operand out = poisoned(kRows * 99, DType::kF32);
  DispatchTable table;
  emit::range_probabilities(table, "languages", {kRows, kStride, kFirst, kCount, 60, 99}, out,
                            store(logits, DType::kF32));
  run(table);
  const std::vector<float> found = load(out, DType::kF32);
  for (uint32_t r = 0; r < kRows; ++r) {
    const float* row = &logits[size_t{r} * kStride];
    double greatest = -1e300, sum = 0;
    for (uint32_t i = 0; i < kCount; ++i) greatest = std::max(greatest, double{row[kFirst + i]});
    for (uint32_t i = 0; i < kCount; ++i) sum += std::exp(row[kFirst + i] - greatest);
    for (uint32_t j = 0; j < 99; ++j) {
      const double wanted = std::exp(row[60 + j] - greatest) / sum;
      ASSERT_NEAR(found[r * 99 + j], wanted, 1e-5 * wanted + 1e-12);
    }
  }
}

TEST_F(RowKernels, RangeProbabilitiesAreOfListedIds) {
  constexpr uint32_t kRows = 4, kStride = 1000, kCount = 900;
  std::vector<float> logits = random(size_t{kRows} * kStride, 4.0f);
  const std::vector<uint32_t> ids = {0, 899, 7, 300};
  const Operand out = poisoned(kRows, DType::kF32);
  DispatchTable table;
  emit::range_probabilities(table, "tokens", {kRows, kStride, 0, kCount, 77, 1}, out,
                            store(logits, DType::kF32), store_structs(ids));
  run(table);
  const std::vector<float> found = load(out, DType::kF32);
  for (uint32_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (uint32_t i = 0; i < kCount; ++i) sum += std::exp(double{logits[r * kStride + i]});
    const double wanted = std::exp(double{logits[r * kStride + ids[r]]}) / sum;
    EXPECT_NEAR(found[r], wanted, 1e-5 * wanted + 1e-12);
  }
}

}  // namespace
}  // namespace vesper::row_kernels_test

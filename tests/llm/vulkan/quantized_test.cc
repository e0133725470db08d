// Products and gathers of quantized weights by shaders, for every file format, compared with plain
// loops in double precision over dequantized weights.
#include <cmath>
#include <deque>
#include <string>

#include "tests/llm/kernels/quantized_matrix.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::quantized_test {
namespace {

class Quantized : public VulkanTest {
 protected:
  void check(const MatrixSource& source, const std::vector<float>& weight, uint32_t n_rows,
             uint32_t n_out, uint32_t n_in, Compute compute, DType dtype) {
    std::vector<float> in = random(size_t{n_rows} * n_in);
    const Weight uploaded = device().upload(source, WeightUse::kAnyRows, compute);
    ASSERT_EQ(uploaded.n_out, n_out);
    ASSERT_EQ(uploaded.n_in, n_in);
    const Operand in_buffer = store(in, dtype);
    const Operand out = poisoned(size_t{n_rows} * n_out, dtype);
    std::vector<float> bias = random(n_out);
    DispatchTable table;
    emit::matmul(table, "product", product(n_rows, n_out, uploaded, dtype, dtype), out, in_buffer,
                 uploaded.data, store(bias, DType::kF32), {}, uploaded.scale);
    run(table);
    const std::vector<float> found = load(out, dtype);
    const bool halves = dtype == DType::kF16 || compute != Compute::kF32;
    const double tolerance = halves ? 2e-3 : 1e-5;
    for (uint32_t r = 0; r < n_rows; ++r) {
      for (uint32_t o = 0; o < n_out; ++o) {
        double sum = bias[o], size = std::abs(sum);
        for (uint32_t k = 0; k < n_in; ++k) {
          const double product = double{in[size_t{r} * n_in + k]} * weight[size_t{o} * n_in + k];
          sum += product;
          size += std::abs(product);
        }
        ASSERT_LE(std::abs(found[size_t{r} * n_out + o] - sum), tolerance * size)
            << n_rows << " rows, " << n_out << " x " << n_in << ", row " << r << ", output " << o;
      }
    }
  }
};

TEST_F(Quantized, ProductsEqualThePlainLoopInEveryFormat) {
  for (const QuantizedFormat& format : quantized_formats()) {
    SCOPED_TRACE(format.name());
    // An odd number of blocks, the narrowest row, and a model's width. Pipelines are slow to
    // compile on a software device, so several shapes share each.
    const uint32_t n_out = 37;
    for (const uint32_t n_in : {3 * format.unit(), format.unit(), 512u}) {
      const QuantizedMatrix matrix(format, n_out, n_in, n_in);
      check(matrix.source(), matrix.numbers, 1, n_out, n_in, Compute::kF32, DType::kF32);
      check(matrix.source(), matrix.numbers, 70, n_out, n_in, Compute::kF32, DType::kF32);
    }
  }
  for (const QuantizedFormat& format :
       {QuantizedFormat{DType::kQ5_1}, QuantizedFormat{DType::kQ3_K}}) {
    SCOPED_TRACE(format.name());
    const QuantizedMatrix matrix(format, 37, 512, 3);
    check(matrix.source(), matrix.numbers, 6, 37, 512, Compute::kF32, DType::kF32);
    check(matrix.source(), matrix.numbers, 70, 37, 512, Compute::kF16, DType::kF16);
  }
}

// Large products have another tile than small ones.
TEST_F(Quantized, LargeProductsEqualThePlainLoop) {
  const QuantizedMatrix matrix({DType::kQ4_0}, 1290, 160, 7);
  check(matrix.source(), matrix.numbers, 1300, 1290, 160, Compute::kF16, DType::kF16);
}

// Scales of 256 columns may be loaded at once; split columns begin between them.
TEST_F(Quantized, ProductsEqualThePlainLoopWithEveryTile) {
  const QuantizedMatrix q4({DType::kQ4_0}, 330, 416, 3);
  const QuantizedFormat formats[] = {{DType::kQ4_1},
                                     {DType::kQ8_0},
                                     {DType::kQ2_K},
                                     {DType::kQ4_K},
                                     {DType::kQ5_K},
                                     {DType::kQ6_K},
                                     {DType::kAffine4, 64, DType::kBF16}};
  std::deque<QuantizedMatrix> matrices;
  for (const QuantizedFormat& format : formats) matrices.emplace_back(format, 70, 1536, 5);
  for (const std::string& tile : matmul_tiles()) {
    for (const std::string splits : {"1", "5"}) {
      SCOPED_TRACE(tile + ", splits " + splits);
      tune(tile + ",matmul_splits=" + splits);
      check(q4.source(), q4.numbers, 390, 330, 416, Compute::kF16, DType::kF16);
      for (size_t i = 0; i < matrices.size(); ++i) {
        SCOPED_TRACE(formats[i].name());
        check(matrices[i].source(), matrices[i].numbers, 40, 70, 1536, Compute::kF16, DType::kF16);
      }
    }
  }
}

TEST_F(Quantized, StacksPartsOfSeveralFormats) {
  const uint32_t n_in = 512;
  const QuantizedMatrix q4({DType::kQ4_K}, 21, n_in, 1), q6({DType::kQ6_K}, 19, n_in, 3),
      mlx({DType::kAffine3, 128, DType::kBF16}, 9, n_in, 5);
  const MatrixSource source{{&q4.view, &q6.view, &mlx.view}};
  std::vector<float> weight = q4.numbers;
  weight.insert(weight.end(), q6.numbers.begin(), q6.numbers.end());
  weight.insert(weight.end(), mlx.numbers.begin(), mlx.numbers.end());
  check(source, weight, 2, 49, n_in, Compute::kF32, DType::kF32);
  check(source, weight, 20, 49, n_in, Compute::kF32, DType::kF32);
}

TEST_F(Quantized, UseAsMuchMemoryAsTheFileExceptForScales) {
  for (const QuantizedFormat& format : quantized_formats()) {
    const QuantizedMatrix matrix(format, 64, 2048, 1);
    const uint64_t file = matrix.bytes.size() + matrix.scales.size() + matrix.biases.size();
    const Weight weight = device().upload(matrix.source(), WeightUse::kAnyRows, Compute::kF32);
    const uint64_t stored =
        device().stored_bytes(matrix.source(), WeightUse::kAnyRows, Compute::kF32);
    EXPECT_EQ(weight.data.bytes + weight.scale.bytes, stored) << format.name();
    // 4-bit scales of 2-bit files become bytes.
    if (has_wider_codes(format.dtype)) continue;
    EXPECT_LE(static_cast<double>(stored),
              static_cast<double>(file) * (format.dtype == DType::kQ2_K ? 1.2 : 1.04))
        << format.name();
  }
}

TEST_F(Quantized, RowsAreGatheredWithTheirPosition) {
  for (const QuantizedFormat& format : quantized_formats()) {
    SCOPED_TRACE(format.name());
    const uint32_t n_vocab = 101, n_ctx = 9, d_model = 256;
    const QuantizedMatrix matrix(format, n_vocab, d_model, 31);
    std::vector<float> positions = random(size_t{n_ctx} * d_model);
    const Weight weight = device().upload(matrix.source(), WeightUse::kEmbedding, Compute::kF32);
    const std::vector<Row> rows{{0, 0, 8, 0}, {100, 1, 0, 0}, {17, 0, 3, 0}, {5, -1, 0, 0}};
    const Operand out = poisoned(rows.size() * d_model, DType::kF32);
    EmbedParams params{static_cast<uint32_t>(rows.size()), d_model, weight.format, 2.0f};
    DispatchTable table;
    emit::embed(table, "embed", params, out, store_structs(rows), weight.data,
                store(positions, DType::kF32), weight.scale);
    run(table);
    const std::vector<float> found = load(out, DType::kF32);
    for (uint32_t r = 0; r < 3; ++r) {
      for (uint32_t i = 0; i < d_model; ++i) {
        const auto token = static_cast<uint32_t>(rows[r].token);
        const auto position = static_cast<uint32_t>(rows[r].position);
        ASSERT_NEAR(found[r * d_model + i],
                    2 * matrix.numbers[token * d_model + i] + positions[position * d_model + i],
                    2e-6)
            << "row " << r << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace vesper::quantized_test

// Products and gathers of quantized weights on the CPU device, for every file format, compared with
// plain loops in double precision over dequantized weights.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "error/error.h"
#include "llm/cpu/cpu_features.h"
#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/kernels/quantized_matrix.h"

namespace vesper::testing::cpu_quantized_test {
namespace {

struct Shape {
  uint32_t n_rows, n_out, n_in;
};

// Values as int8 in blocks of 32, each with the scale max |x| / 127.
std::vector<float> as_int8_blocks(const std::vector<float>& numbers) {
  std::vector<float> result(numbers.size());
  for (size_t block = 0; block < numbers.size(); block += 32) {
    float largest = 0;
    for (size_t i = block; i < block + 32; ++i) largest = std::max(largest, std::abs(numbers[i]));
    const float inverse = largest > 0 ? 127 / largest : 0;
    for (size_t i = block; i < block + 32; ++i) {
      result[i] = std::nearbyint(numbers[i] * inverse) * (largest / 127);
    }
  }
  return result;
}

// The rounding of the operands by the device's kernel.
enum class Operands { kExact, kInt8Rows, kBF16 };

Operands operands_of(Compute compute, uint32_t n_rows) {
  const bool tiles = compute == Compute::kBF16 || compute == Compute::kAuto;
  if (tiles && cpu_features().amx && n_rows > 16) return Operands::kBF16;
  const bool int8 = compute == Compute::kI8 || compute == Compute::kAuto;
  if (int8 && cpu_features().avx2) return Operands::kInt8Rows;
  return Operands::kExact;
}

std::vector<float> product(Device& device, const MatrixSource& source, Compute compute,
                           const Shape& shape, const std::vector<float>& rows) {
  const Weight weight = device.upload(source, WeightUse::kAnyRows, compute);
  EXPECT_EQ(weight.n_out, shape.n_out);
  EXPECT_EQ(weight.n_in, shape.n_in);
  // Kernels compute whole tiles; the rows of a tile after the last row are not written.
  constexpr uint32_t kRowsBehind = 32;
  const size_t n = size_t{shape.n_rows} * shape.n_out;
  const Operand guarded = nan_buffer(device, n + size_t{kRowsBehind} * shape.n_out, DType::kF32);
  const Operand out = guarded.part(0, n * sizeof(float));
  MatmulParams params{};
  params.n_rows = params.rows_per_batch = shape.n_rows;
  params.n_out = params.out_row_stride = shape.n_out;
  params.n_in = params.in_row_stride = shape.n_in;
  params.weight_format = weight.format;
  DispatchTable table;
  emit::matmul(table, "test", params, out, store(device, rows), weight.data, {}, {}, weight.scale);
  run_once(device, table);
  std::vector<float> found = fetch<float>(device, guarded);
  EXPECT_TRUE(std::all_of(found.begin() + static_cast<ptrdiff_t>(n), found.end(), [](float x) {
    return std::isnan(x);
  })) << "written behind the last row";
  found.resize(n);
  return found;
}

// The greatest error relative to the sum of the products' magnitudes.
double greatest_error(const std::vector<float>& found, const Shape& shape,
                      const std::vector<float>& rows, const std::vector<float>& weight) {
  double worst = 0;
  for (uint32_t r = 0; r < shape.n_rows; ++r) {
    for (uint32_t o = 0; o < shape.n_out; ++o) {
      double sum = 0, size = 1e-6;
      for (uint32_t i = 0; i < shape.n_in; ++i) {
        const double one =
            double{rows[size_t{r} * shape.n_in + i]} * weight[size_t{o} * shape.n_in + i];
        sum += one;
        size += std::abs(one);
      }
      const double error = std::abs(found[size_t{r} * shape.n_out + o] - sum) / size;
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
  }
  return worst;
}

void check(Device& device, const MatrixSource& source, std::vector<float> weight, Compute compute,
           const Shape& shape) {
  SCOPED_TRACE(std::to_string(shape.n_rows) + " rows, " + std::to_string(shape.n_out) + " x " +
               std::to_string(shape.n_in) + ", compute " + std::string(compute_name(compute)));
  std::vector<float> rows = random_numbers(size_t{shape.n_rows} * shape.n_in, shape.n_rows + 11);
  const std::vector<float> found = product(device, source, compute, shape, rows);
  double tolerance = 2e-6;
  switch (operands_of(compute, shape.n_rows)) {
    case Operands::kExact:
      break;
    case Operands::kInt8Rows:
      rows = as_int8_blocks(rows);
      // A value between two integers may round either way in f32.
      tolerance = 5e-4;
      break;
    case Operands::kBF16:
      rows = rounded(rows, DType::kBF16);
      weight = rounded(weight, DType::kBF16);
      // The same between two bf16.
      tolerance = 2e-4;
      break;
  }
  EXPECT_LE(greatest_error(found, shape, rows, weight), tolerance);
}

constexpr Compute kComputes[] = {Compute::kF32, Compute::kI8, Compute::kBF16, Compute::kAuto};

TEST(CpuQuantized, ProductsEqualThePlainLoopInEveryFormat) {
  const auto device = cpu();
  for (const QuantizedFormat& format : quantized_formats()) {
    SCOPED_TRACE(format.name());
    // The narrowest row, an odd number of blocks, and a model's width.
    for (const uint32_t n_in : {format.unit(), 3 * format.unit(), 768u}) {
      for (const uint32_t n_out : {1u, 16u, 83u}) {
        const QuantizedMatrix matrix(format, n_out, n_in, n_out + n_in);
        for (const Compute compute : kComputes) {
          for (const uint32_t n_rows : {1u, 3u, 17u}) {
            check(*device, matrix.source(), matrix.numbers, compute, {n_rows, n_out, n_in});
          }
        }
      }
    }
  }
}

// Products of the largest codes and values with one sign: no short sum may overflow.
TEST(CpuQuantized, ProductsOfTheLargestNumbersEqualThePlainLoop) {
  const auto device = cpu();
  const Shape shape{5, 16, 256};
  for (const DType dtype : {DType::kAffine2, DType::kAffine3, DType::kAffine4, DType::kAffine5,
                            DType::kAffine6, DType::kAffine8}) {
    QuantizedMatrix matrix({dtype, 64, DType::kF32}, shape.n_out, shape.n_in, 3);
    const auto n_bits = matrix.bytes.size() * 8 / matrix.numbers.size();
    std::fill(matrix.bytes.begin(), matrix.bytes.end(), uint8_t{0xff});
    for (size_t i = 0; i < matrix.numbers.size(); ++i) {
      float scale, bias;
      std::memcpy(&scale, &matrix.scales[i / 64 * 4], 4);
      std::memcpy(&bias, &matrix.biases[i / 64 * 4], 4);
      matrix.numbers[i] = scale * static_cast<float>((1 << n_bits) - 1) + bias;
    }
    for (const float number : {1.0f, -1.0f}) {
      const std::vector<float> rows(size_t{shape.n_rows} * shape.n_in, number);
      const auto found = product(*device, matrix.source(), Compute::kI8, shape, rows);
      EXPECT_LE(greatest_error(found, shape, rows, matrix.numbers), 4e-6) << n_bits << " bits";
    }
  }
}

TEST(CpuQuantized, ProductsEqualThePlainLoopForEveryNumberOfRows) {
  const auto device = cpu();
  for (const DType dtype : {DType::kQ4_1, DType::kQ6_K}) {
    SCOPED_TRACE(dtype_descriptor(dtype).name);
    const uint32_t n_out = 50, n_in = 512;
    const QuantizedMatrix matrix({dtype}, n_out, n_in, 7);
    for (const Compute compute : kComputes) {
      for (const uint32_t n_rows :
           {2u, 4u, 5u, 6u, 7u, 8u, 12u, 15u, 16u, 31u, 32u, 33u, 48u, 49u, 255u, 257u, 290u}) {
        check(*device, matrix.source(), matrix.numbers, compute, {n_rows, n_out, n_in});
      }
    }
  }
}

TEST(CpuQuantized, AFormatUsesAsMuchMemoryAsTheFileExceptForScales) {
  const auto device = cpu();
  for (const QuantizedFormat& format : quantized_formats()) {
    const uint32_t n_out = 256, n_in = 4096;
    const QuantizedMatrix matrix(format, n_out, n_in, 1);
    const uint64_t file = matrix.bytes.size() + matrix.scales.size() + matrix.biases.size();
    const uint64_t stored =
        device->stored_bytes(matrix.source(), WeightUse::kAnyRows, Compute::kBF16);
    const Weight weight = device->upload(matrix.source(), WeightUse::kAnyRows, Compute::kBF16);
    EXPECT_EQ(weight.data.bytes, stored) << format.name();
    EXPECT_FALSE(weight.scale.present()) << format.name();
    // 4-bit scales of 2-bit files become bytes.
    if (has_wider_codes(format.dtype)) continue;
    EXPECT_LE(static_cast<double>(stored),
              static_cast<double>(file) * (format.dtype == DType::kQ2_K ? 1.2 : 1.04))
        << format.name();
  }
}

TEST(CpuQuantized, GivesARowTheSameBitsInAnyBatch) {
  const auto device = cpu();
  const uint32_t n_out = 67, n_in = 768, most = 113;
  const std::vector<float> rows = random_numbers(size_t{most} * n_in, 21);
  // In bf16, commands of up to 16 rows and larger ones differ on CPUs with tiles: within each kind
  // the bits are equal.
  const std::vector<uint32_t> few{16, 1, 2, 5, 12, 13}, many{most, 17, 31, 32, 33, 96};
  std::vector<uint32_t> all_heights = many;
  all_heights.insert(all_heights.end(), few.begin(), few.end());
  const std::pair<Compute, std::vector<uint32_t>> kinds[] = {
      {Compute::kF32, all_heights}, {Compute::kI8, all_heights}, {Compute::kBF16, few},
      {Compute::kBF16, many},       {Compute::kAuto, few},       {Compute::kAuto, many}};
  for (const DType dtype : {DType::kQ5_0, DType::kQ4_K}) {
    const QuantizedMatrix matrix({dtype}, n_out, n_in, 22);
    for (const auto& [compute, heights] : kinds) {
      std::vector<float> all;
      for (const uint32_t n_rows : heights) {
        const std::vector<float> found =
            product(*device, matrix.source(), compute, {n_rows, n_out, n_in}, rows);
        if (all.empty()) all = found;
        EXPECT_EQ(0, std::memcmp(all.data(), found.data(), found.size() * sizeof(float)))
            << n_rows << " rows, compute " << compute_name(compute);
      }
    }
  }
}

TEST(CpuQuantized, AddsBiasAndResidualAndKeepsGapsBetweenRows) {
  const auto device = cpu();
  const uint32_t n_out = 50, n_in = 256, stride = 53;
  const QuantizedMatrix matrix({DType::kQ4_1}, n_out, n_in, 5);
  const std::vector<float> bias = random_numbers(n_out, 6);
  for (const uint32_t n_rows : {1u, 32u, 40u}) {
    const std::vector<float> rows = random_numbers(size_t{n_rows} * n_in, 7);
    const std::vector<float> residual = random_numbers(size_t{n_rows} * stride, 8);
    for (const bool with_bias : {false, true}) {
      for (const bool with_residual : {false, true}) {
        const Weight weight = device->upload(matrix.source(), WeightUse::kAnyRows, Compute::kAuto);
        const Operand out = nan_buffer(*device, size_t{n_rows} * stride, DType::kF32);
        MatmulParams params{};
        params.n_rows = params.rows_per_batch = n_rows;
        params.n_out = n_out;
        params.out_row_stride = stride;
        params.n_in = params.in_row_stride = n_in;
        params.weight_format = weight.format;
        DispatchTable table;
        emit::matmul(table, "test", params, out, store(*device, rows), weight.data,
                     with_bias ? store(*device, bias) : Operand{},
                     with_residual ? store(*device, residual) : Operand{}, weight.scale);
        run_once(*device, table);
        const std::vector<float> found = fetch<float>(*device, out);
        for (uint32_t r = 0; r < n_rows; ++r) {
          for (uint32_t o = 0; o < stride; ++o) {
            const float value = found[size_t{r} * stride + o];
            if (o >= n_out) {
              ASSERT_TRUE(std::isnan(value)) << "written behind row " << r;
              continue;
            }
            double sum = (with_bias ? bias[o] : 0.0f) +
                         (with_residual ? residual[size_t{r} * stride + o] : 0.0f);
            double size = 1;
            for (uint32_t i = 0; i < n_in; ++i) {
              const double one = double{rows[size_t{r} * n_in + i]} * matrix.numbers[o * n_in + i];
              sum += one;
              size += std::abs(one);
            }
            // bf16 rounds by at most one part in 256, int8 rows by one in 254 of the largest.
            ASSERT_LE(std::abs(value - sum), 3e-3 * size) << "row " << r << ", output " << o;
          }
        }
      }
    }
  }
}

TEST(CpuQuantized, StacksPartsOfOneOrSeveralFormats) {
  const auto device = cpu();
  const uint32_t n_in = 512;
  const QuantizedMatrix q4({DType::kQ4_K}, 21, n_in, 1), more({DType::kQ4_K}, 30, n_in, 2),
      q6({DType::kQ6_K}, 19, n_in, 3), q8({DType::kQ8_0}, 5, n_in, 4),
      mlx({DType::kAffine3, 128, DType::kBF16}, 9, n_in, 5);
  const std::vector<std::vector<const QuantizedMatrix*>> stacks{
      {&q4, &more}, {&q4, &q6}, {&q6, &q4, &q8}, {&mlx, &q4}};
  for (const auto& stack : stacks) {
    MatrixSource source;
    std::vector<float> weight;
    uint32_t n_out = 0;
    for (const QuantizedMatrix* part : stack) {
      source.parts.push_back(&part->view);
      weight.insert(weight.end(), part->numbers.begin(), part->numbers.end());
      n_out += static_cast<uint32_t>(part->view.shape[0]);
    }
    for (const Compute compute : kComputes) {
      for (const uint32_t n_rows : {1u, 6u, 40u}) {
        check(*device, source, weight, compute, {n_rows, n_out, n_in});
      }
    }
  }
}

TEST(CpuQuantized, GathersTheRowAndAddsItsPosition) {
  const auto device = cpu();
  for (const QuantizedFormat& format : quantized_formats()) {
    const uint32_t n_vocab = 101, n_ctx = 9, d_model = 256;
    const QuantizedMatrix matrix(format, n_vocab, d_model, 31);
    const std::vector<float> positions = random_numbers(n_ctx * d_model, 32);
    const Weight weight = device->upload(matrix.source(), WeightUse::kEmbedding, Compute::kF32);
    const std::vector<Row> rows{{0, 0, 8, 0}, {100, 1, 0, 0}, {17, 0, 3, 0}, {5, -1, 0, 0}};
    for (const bool with_positions : {false, true}) {
      const Operand out = nan_buffer(*device, rows.size() * d_model, DType::kF32);
      EmbedParams params{static_cast<uint32_t>(rows.size()), d_model, weight.format, 2.0f};
      DispatchTable table;
      emit::embed(table, "embed", params, out, store(*device, rows), weight.data,
                  with_positions ? store(*device, positions) : Operand{}, weight.scale);
      run_once(*device, table);
      const std::vector<float> found = fetch<float>(*device, out);
      for (uint32_t r = 0; r < 3; ++r) {
        for (uint32_t i = 0; i < d_model; ++i) {
          const auto token = static_cast<uint32_t>(rows[r].token);
          const auto position = static_cast<uint32_t>(rows[r].position);
          const float expected = 2 * matrix.numbers[token * d_model + i] +
                                 (with_positions ? positions[position * d_model + i] : 0.0f);
          ASSERT_NEAR(found[r * d_model + i], expected, 2e-6)
              << format.name() << ", row " << r << ", " << i;
        }
      }
    }
  }
}

TEST(CpuQuantized, RefusesRowsOfIncompleteBlocks) {
  const auto device = cpu();
  QuantizedMatrix matrix({DType::kQ4_0}, 2, 32, 1);
  matrix.view.shape = {4, 16};
  try {
    device->upload(matrix.source(), WeightUse::kAnyRows, Compute::kF32);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    EXPECT_NE(std::string(error.what()).find("test.weight"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace vesper::testing::cpu_quantized_test

// matmul and embed of the CPU device compared with plain loops in double precision.
#include "llm/cpu/cpu_features.h"
#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/kernels/plain_activation.h"

namespace vesper::testing::cpu_matmul_test {
namespace {

struct Case {
  uint32_t n_rows, n_out, n_in;
  DType file = DType::kF16;
  Compute compute = Compute::kF32;
  DType in = DType::kF32, out = DType::kF32;
  uint32_t flags = 0, activation = kActivationNone;
  bool bias = true, residual = false;
  uint32_t n_batches = 1;
  WeightUse use = WeightUse::kAnyRows;
};

std::string describe(const Case& c) {
  return std::to_string(c.n_rows) + " rows, " + std::to_string(c.n_out) + " x " +
         std::to_string(c.n_in) + ", file " + std::to_string(code(c.file)) + ", compute " +
         std::to_string(static_cast<int>(c.compute)) + ", in " + std::to_string(code(c.in)) +
         ", out " + std::to_string(code(c.out)) + ", flags " + std::to_string(c.flags) +
         ", activation " + std::to_string(c.activation);
}

// Values as int8 products round them: multiples of max |x| / 127, by row.
std::vector<float> as_int8(const std::vector<float>& numbers, uint32_t n_rows, uint32_t width) {
  std::vector<float> result(numbers.size());
  for (uint32_t r = 0; r < n_rows; ++r) {
    float largest = 0;
    for (uint32_t i = 0; i < width; ++i) {
      largest = std::max(largest, std::abs(numbers[r * width + i]));
    }
    const float inverse = largest > 0 ? 127 / largest : 0;
    for (uint32_t i = 0; i < width; ++i) {
      result[r * width + i] = std::nearbyint(numbers[r * width + i] * inverse) * (largest / 127);
    }
  }
  return result;
}

// Runs a product and compares it with a plain loop. Rows of `in` and `out` are apart, with NaN
// between those of `in` to detect reads beyond a row.
std::vector<float> check(Device& device, const Case& c, double tolerance) {
  SCOPED_TRACE(describe(c));
  const uint32_t in_stride = c.n_in + 3, out_stride = c.n_out + 5;
  const uint32_t rows_per_batch = c.n_rows / c.n_batches;
  const uint32_t in_batch = rows_per_batch * in_stride + 7;
  const uint32_t out_batch = rows_per_batch * out_stride + 2;
  std::vector<float> weight =
      rounded(random_numbers(size_t{c.n_out} * c.n_in, c.n_out + c.n_in), c.file);
  std::vector<float> rows = rounded(random_numbers(size_t{c.n_rows} * c.n_in, c.n_rows + 11), c.in);
  const std::vector<float> bias = random_numbers(c.n_out, 5);
  std::vector<float> in(size_t{c.n_batches} * in_batch, kNaN);
  const auto batch_of = [&](uint32_t r) { return r / rows_per_batch; };
  for (uint32_t r = 0; r < c.n_rows; ++r) {
    std::copy_n(&rows[size_t{r} * c.n_in], c.n_in,
                &in[size_t{batch_of(r)} * in_batch + size_t{r % rows_per_batch} * in_stride]);
  }
  const bool by_row = c.flags & kMatmulResidualByRow;
  const std::vector<float> residual = random_numbers(
      by_row ? size_t{rows_per_batch} * c.n_out : size_t{c.n_batches} * out_batch, 9);

  const FileMatrix file(weight, c.n_out, c.n_in, c.file);
  const Weight uploaded = device.upload(file.source(), c.use, c.compute);
  EXPECT_EQ(uploaded.n_out, c.n_out);
  EXPECT_EQ(uploaded.n_in, c.n_in);
  const Operand out = nan_buffer(device, size_t{c.n_batches} * out_batch, c.out);
  MatmulParams params{};
  params.n_rows = c.n_rows;
  params.n_out = c.n_out;
  params.n_in = c.n_in;
  params.in_row_stride = in_stride;
  params.out_row_stride = out_stride;
  params.rows_per_batch = rows_per_batch;
  params.in_batch_stride = in_batch;
  params.out_batch_stride = out_batch;
  params.in_dtype = code(c.in);
  params.out_dtype = code(c.out);
  params.weight_format = uploaded.format;
  params.flags = c.flags;
  params.activation = c.activation;
  DispatchTable table;
  emit::matmul(table, "test", params, out, store(device, encode(in, c.in)), uploaded.data,
               c.bias ? store(device, bias) : Operand{},
               c.residual ? store(device, residual) : Operand{}, uploaded.scale);
  run_once(device, table);

  if (c.compute == Compute::kI8) {
    weight = as_int8(weight, c.n_out, c.n_in);
    rows = as_int8(rows, c.n_rows, c.n_in);
  }
  const std::vector<float> found = decode(fetch<uint8_t>(device, out), c.out);
  double worst = 0;
  std::vector<float> result;
  for (uint32_t r = 0; r < c.n_rows; ++r) {
    for (uint32_t o = 0; o < c.n_out; ++o) {
      double sum = c.bias ? bias[o] : 0.0, size = std::abs(sum) + 1e-6;
      for (uint32_t i = 0; i < c.n_in; ++i) {
        const double product =
            double{rows[size_t{r} * c.n_in + i]} * weight[size_t{o} * c.n_in + i];
        sum += product;
        size += std::abs(product);
      }
      sum = test::plain_activation(c.activation, sum);
      const size_t at = size_t{batch_of(r)} * out_batch + size_t{r % rows_per_batch} * out_stride;
      if (c.residual) {
        const float more =
            by_row ? residual[size_t{r % rows_per_batch} * c.n_out + o] : residual[at + o];
        sum += more;
        size += std::abs(more);
      }
      const double error = std::abs(found[at + o] - sum) / size;
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
      result.push_back(found[at + o]);
    }
    // Nothing is written between the rows.
    for (uint32_t o = c.n_out; o < out_stride; ++o) {
      const size_t at = size_t{batch_of(r)} * out_batch + size_t{r % rows_per_batch} * out_stride;
      EXPECT_TRUE(std::isnan(found[at + o])) << "written behind row " << r;
    }
  }
  EXPECT_LE(worst, tolerance);
  return result;
}

constexpr double kF32Tolerance = 1e-5, k16BitTolerance = 2e-3;

TEST(CpuMatmul, InF32EqualsThePlainLoopForEveryRowCountUpToTwoTiles) {
  const auto device = cpu();
  for (uint32_t n_rows = 1; n_rows <= 26; ++n_rows) {
    for (const DType file : {DType::kF16, DType::kF32, DType::kBF16}) {
      check(*device, {n_rows, 83, 96, file}, kF32Tolerance);
    }
  }
}

TEST(CpuMatmul, InF32EqualsThePlainLoopForOddShapes) {
  const auto device = cpu();
  for (const uint32_t n_rows : {1u, 7u, 100u, 193u}) {
    for (const uint32_t n_out : {1u, 7u, 16u, 129u}) {
      for (const uint32_t n_in : {1u, 7u, 31u, 384u}) {
        check(*device, {n_rows, n_out, n_in}, kF32Tolerance);
      }
    }
  }
  check(*device, {1500, 7, 80}, kF32Tolerance);
  check(*device, {1, 51865, 64}, kF32Tolerance);
  check(*device, {3, 51865, 7}, kF32Tolerance);
}

TEST(CpuMatmul, AppliesBiasActivationAndResidual) {
  const auto device = cpu();
  for (const uint32_t activation : test::kAllActivations) {
    for (const uint32_t flags : {0u, kMatmulResidualByRow}) {
      for (const bool bias : {false, true}) {
        for (const bool residual : {false, true}) {
          for (const uint32_t n_batches : {1u, 3u}) {
            Case c{6, 37, 40};
            c.flags = flags;
            c.activation = activation;
            c.bias = bias;
            c.residual = residual;
            c.n_batches = n_batches;
            check(*device, c, kF32Tolerance);
          }
        }
      }
    }
  }
}

TEST(CpuMatmul, ReadsAndWrites16BitRows) {
  const auto device = cpu();
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Case c{5, 50, 70};
    c.in = dtype;
    check(*device, c, kF32Tolerance);
    c.out = dtype;
    check(*device, c, dtype == DType::kF16 ? k16BitTolerance : 4e-3);
  }
}

TEST(CpuMatmul, InBf16StaysCloseToThePlainLoop) {
  const auto device = cpu();
  for (const uint32_t n_rows : {1u, 2u, 7u, 16u, 17u, 33u, 100u, 256u}) {
    for (const DType file : {DType::kF16, DType::kBF16}) {
      for (const uint32_t n_out : {7u, 64u, 129u}) {
        for (const uint32_t n_in : {7u, 64u, 384u}) {
          // The rest of a number after two bf16 is below 2^-16 of it. 16-bit products round to
          // 2^-13 of the largest of 64 inputs, so a few inputs may all be far below.
          const bool in_16_bits = n_rows > 16 && !cpu_features().amx;
          const double tolerance = !in_16_bits ? 2e-5 : n_in < 64 ? 1e-3 : 1.5e-4;
          check(*device, {n_rows, n_out, n_in, file, Compute::kBF16}, tolerance);
        }
      }
    }
  }
}

// For consecutive rows.
MatmulParams params_of(uint32_t n_rows, const Weight& weight) {
  MatmulParams params{};
  params.n_rows = params.rows_per_batch = n_rows;
  params.n_out = params.out_row_stride = weight.n_out;
  params.n_in = params.in_row_stride = weight.n_in;
  params.weight_format = weight.format;
  return params;
}

// A row with one value far above the others, as activations have: the error is that of f16.
TEST(CpuMatmul, KeepsSmallValuesBesideLargeOnes) {
  const auto device = cpu();
  constexpr uint32_t kRows = 20, kOut = 48, kIn = 256;
  const FileMatrix file(random_numbers(size_t{kOut} * kIn, 3), kOut, kIn, DType::kF16);
  std::vector<float> in = random_numbers(size_t{kRows} * kIn, 4);
  const auto product = [&](Compute compute) {
    const Weight weight = device->upload(file.source(), WeightUse::kAnyRows, compute);
    const Operand out = nan_buffer(*device, size_t{kRows} * kOut, DType::kF32);
    DispatchTable table;
    emit::matmul(table, "test", params_of(kRows, weight), out, store(*device, in), weight.data, {},
                 {}, weight.scale);
    run_once(*device, table);
    return fetch<float>(*device, out);
  };
  for (uint32_t r = 0; r < kRows; ++r) in[size_t{r} * kIn + 70] *= 30.0f;
  const std::vector<float> wanted = product(Compute::kF32), found = product(Compute::kAuto);
  double of_errors = 0, of_all = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    of_errors += std::pow(double{found[i]} - wanted[i], 2);
    of_all += std::pow(double{wanted[i]}, 2);
  }
  EXPECT_LT(std::sqrt(of_errors / of_all), 4e-4);
}

// A product with unused rows, each used row compared with the full product.
void check_left_out_rows(Device& device, const Case& c) {
  SCOPED_TRACE(describe(c));
  const FileMatrix file(random_numbers(size_t{c.n_out} * c.n_in, 3), c.n_out, c.n_in, c.file);
  const Weight weight = device.upload(file.source(), WeightUse::kAnyRows, c.compute);
  const Operand in = store(device, random_numbers(size_t{c.n_rows} * c.n_in, 4));
  const Operand bias = c.bias ? store(device, random_numbers(c.n_out, 5)) : Operand{};
  const std::vector<float> before = random_numbers(size_t{c.n_rows} * c.n_out, 6);
  const auto product = [&](const std::vector<Row>& rows) {
    const Operand out = store(device, before);
    MatmulParams params = params_of(c.n_rows, weight);
    params.flags = c.flags;
    params.activation = c.activation;
    DispatchTable table;
    emit::matmul(table, "test", params, out, in, weight.data, bias, c.residual ? out : Operand{},
                 weight.scale, rows.empty() ? Operand{} : store(device, rows));
    run_once(device, table);
    return fetch<float>(device, out);
  };
  const std::vector<float> whole = product({});
  std::vector<Row> none(c.n_rows, Row{0, -1, 0, 0}), first = none, some = none, all = none;
  for (uint32_t r = 0; r < c.n_rows; ++r) {
    all[r].sequence = 0;
    if (r < c.n_rows / 2) first[r].sequence = 3;
    if (r % 3 != 0 && r / 7 != 1) some[r].sequence = static_cast<int>(r);
  }
  for (const std::vector<Row>& rows : {none, first, some, all}) {
    const std::vector<float> found = product(rows);
    for (uint32_t r = 0; r < c.n_rows; ++r) {
      const std::vector<float>& wanted = rows[r].sequence >= 0 ? whole : before;
      for (uint32_t o = 0; o < c.n_out; ++o) {
        const size_t at = size_t{r} * c.n_out + o;
        ASSERT_EQ(found[at], wanted[at]) << "row " << r << ", output " << o;
      }
    }
  }
}

TEST(CpuMatmul, SkipsEmptyRows) {
  const auto device = cpu();
  for (const uint32_t n_rows : {1u, 5u, 40u, 300u}) {
    for (const Compute compute : {Compute::kF32, Compute::kAuto, Compute::kI8}) {
      for (const bool plain : {true, false}) {
        Case c{n_rows, 83, 70, DType::kF16, compute};
        c.activation = plain ? kActivationNone : kActivationGelu;
        c.bias = c.residual = !plain;
        check_left_out_rows(*device, c);
      }
    }
  }
}

TEST(CpuMatmul, InInt8EqualsTheProductOfTheQuantizedRows) {
  const auto device = cpu();
  for (const uint32_t n_rows : {1u, 2u, 3u, 7u, 8u, 15u, 100u}) {
    for (const uint32_t n_out : {7u, 64u, 129u}) {
      for (const uint32_t n_in : {7u, 64u, 384u}) {
        // A value between two integers may round either way in f32: one part in 127 of one product.
        check(*device, {n_rows, n_out, n_in, DType::kF16, Compute::kI8}, 1e-3);
      }
    }
  }
}

TEST(CpuMatmul, GivesARowTheSameBitsInAnyBatch) {
  const auto device = cpu();
  const uint32_t n_out = 67, n_in = 192, most = 113;
  const std::vector<float> rows = random_numbers(size_t{most} * n_in, 21);
  // In bf16, commands of up to 16 rows are multiplied in f32, and larger ones on tiles if
  // available: within each kind the bits are equal.
  const std::vector<uint32_t> few{16, 1, 2, 5, 12, 13}, many{most, 17, 31, 32, 33, 96};
  std::vector<uint32_t> all_heights = many;
  all_heights.insert(all_heights.end(), few.begin(), few.end());
  const std::pair<Compute, std::vector<uint32_t>> kinds[] = {{Compute::kF32, all_heights},
                                                             {Compute::kI8, all_heights},
                                                             {Compute::kBF16, few},
                                                             {Compute::kBF16, many}};
  for (const auto& [compute, heights] : kinds) {
    const FileMatrix file(random_numbers(size_t{n_out} * n_in, 22), n_out, n_in, DType::kF16);
    const Weight weight = device->upload(file.source(), WeightUse::kAnyRows, compute);
    std::vector<float> all;
    for (const uint32_t n_rows : heights) {
      const Operand out = nan_buffer(*device, size_t{n_rows} * n_out, DType::kF32);
      DispatchTable table;
      emit::matmul(table, "test", params_of(n_rows, weight), out, store(*device, rows), weight.data,
                   {}, {}, weight.scale);
      run_once(*device, table);
      const std::vector<float> found = fetch<float>(*device, out);
      if (all.empty()) all = found;
      EXPECT_EQ(0, std::memcmp(all.data(), found.data(), found.size() * sizeof(float)))
          << n_rows << " rows, compute " << static_cast<int>(compute);
    }
  }
}

TEST(CpuMatmul, ComputesGeluToOneInAMillion) {
  const auto device = cpu();
  const uint32_t n = 4001;
  std::vector<float> in(n);
  for (uint32_t i = 0; i < n; ++i) in[i] = (static_cast<float>(i) - 2000) / 200;
  const FileMatrix file({1.0f}, 1, 1, DType::kF32);
  const Weight weight = device->upload(file.source(), WeightUse::kAnyRows, Compute::kF32);
  const Operand out = nan_buffer(*device, n, DType::kF32);
  MatmulParams params{};
  params.n_rows = params.rows_per_batch = n;
  params.n_out = params.out_row_stride = params.n_in = params.in_row_stride = 1;
  params.weight_format = weight.format;
  params.activation = kActivationGelu;
  DispatchTable table;
  emit::matmul(table, "gelu", params, out, store(*device, in), weight.data, {}, {}, {});
  run_once(*device, table);
  const std::vector<float> found = fetch<float>(*device, out);
  for (uint32_t i = 0; i < n; ++i)
    EXPECT_NEAR(found[i], test::plain_activation(kActivationGelu, in[i]), 1e-6) << in[i];
}

TEST(CpuMatmul, StacksThePartsOfAMatrix) {
  const auto device = cpu();
  const FileMatrix top({1, 2, 3, 4}, 2, 2, DType::kF16), low({5, 6}, 1, 2, DType::kF32);
  const MatrixSource source{{&top.view, &low.view}};
  const Weight weight = device->upload(source, WeightUse::kAnyRows, Compute::kF32);
  ASSERT_EQ(weight.n_out, 3u);
  const Operand out = nan_buffer(*device, 3, DType::kF32);
  MatmulParams params{};
  params.n_rows = params.rows_per_batch = 1;
  params.n_out = params.out_row_stride = 3;
  params.n_in = params.in_row_stride = 2;
  params.weight_format = weight.format;
  DispatchTable table;
  emit::matmul(table, "test", params, out, store(*device, std::vector<float>{10, 100}), weight.data,
               {}, {}, {});
  run_once(*device, table);
  EXPECT_EQ(fetch<float>(*device, out), (std::vector<float>{210, 430, 650}));
}

TEST(CpuMatmul, KeepsInt8WeightsOfAFile) {
  const auto device = cpu();
  const uint32_t n_out = 37, n_in = 96, n_rows = 5;
  std::mt19937 random(3);
  std::vector<int8_t> whole(n_out * n_in);
  for (int8_t& w : whole) w = static_cast<int8_t>(random() % 255 - 127);
  TensorView view;
  view.file_name = "test.weight";
  view.dtype = DType::kI8;
  view.shape = {n_out, n_in};
  view.data = whole.data();
  view.bytes = whole.size();
  for (uint32_t o = 0; o < n_out; ++o) view.scale.push_back(0.001f * static_cast<float>(o + 1));
  // Integer rows with a maximum of 127: quantizing them is exact.
  std::vector<float> rows(n_rows * n_in);
  for (float& x : rows) x = static_cast<float>(static_cast<int>(random() % 255) - 127);
  for (uint32_t r = 0; r < n_rows; ++r) rows[r * n_in] = 127;
  for (const WeightUse use : {WeightUse::kAnyRows, WeightUse::kManyRows}) {
    const Weight weight = device->upload({{&view, &view}}, use, Compute::kI8);
    ASSERT_EQ(weight.n_out, 2 * n_out);
    const Operand out = nan_buffer(*device, size_t{n_rows} * weight.n_out, DType::kF32);
    MatmulParams params{};
    params.n_rows = params.rows_per_batch = n_rows;
    params.n_out = params.out_row_stride = weight.n_out;
    params.n_in = params.in_row_stride = n_in;
    params.weight_format = weight.format;
    DispatchTable table;
    emit::matmul(table, "test", params, out, store(*device, rows), weight.data, {}, {},
                 weight.scale);
    run_once(*device, table);
    const std::vector<float> found = fetch<float>(*device, out);
    for (uint32_t r = 0; r < n_rows; ++r) {
      for (uint32_t o = 0; o < weight.n_out; ++o) {
        double sum = 0;
        for (uint32_t i = 0; i < n_in; ++i) {
          sum += double{rows[r * n_in + i]} * whole[o % n_out * n_in + i];
        }
        sum *= view.scale[o % n_out];
        EXPECT_NEAR(found[r * weight.n_out + o], sum, 1e-4 + std::abs(sum) * 1e-5);
      }
    }
  }
}

class CpuEmbed : public ::testing::TestWithParam<WeightUse> {};

TEST_P(CpuEmbed, GathersTheRowAndAddsItsPosition) {
  const auto device = cpu();
  for (const Compute compute : {Compute::kF32, Compute::kBF16, Compute::kI8}) {
    for (const DType file_dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const uint32_t d_model : {7u, 48u}) {
        const uint32_t n_vocab = 101, n_ctx = 9;
        const std::vector<float> table_rows =
            rounded(random_numbers(n_vocab * d_model, 31), file_dtype);
        const std::vector<float> positions = random_numbers(n_ctx * d_model, 32);
        const FileMatrix file(table_rows, n_vocab, d_model, file_dtype);
        const Weight weight = device->upload(file.source(), GetParam(), compute);
        const std::vector<Row> rows{{0, 0, 8, 0}, {100, 1, 0, 0}, {17, 0, 3, 0}, {5, -1, 0, 0}};
        const Operand out = nan_buffer(*device, rows.size() * d_model, DType::kF32);
        EmbedParams params{static_cast<uint32_t>(rows.size()), d_model, weight.format, 2.0f};
        DispatchTable table;
        emit::embed(table, "embed", params, out, store(*device, rows), weight.data,
                    store(*device, positions), weight.scale);
        run_once(*device, table);
        const std::vector<float> found = fetch<float>(*device, out);
        const float tolerance = compute == Compute::kI8 ? 2.0f / 127 : 1e-6f;
        // bf16 may store f32 files as bf16.
        const float rounding = compute == Compute::kBF16 ? 2.0f / 256 : 0.0f;
        for (uint32_t r = 0; r < 3; ++r) {
          for (uint32_t i = 0; i < d_model; ++i) {
            const auto token = static_cast<uint32_t>(rows[r].token);
            const auto position = static_cast<uint32_t>(rows[r].position);
            EXPECT_NEAR(found[r * d_model + i],
                        2 * table_rows[token * d_model + i] + positions[position * d_model + i],
                        tolerance + rounding);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Uses, CpuEmbed,
                         ::testing::Values(WeightUse::kEmbedding, WeightUse::kLookup),
                         [](const auto& use) {
                           return use.param == WeightUse::kLookup ? "GatheredOnly" : "Multiplied";
                         });

}  // namespace
}  // namespace vesper::testing::cpu_matmul_test

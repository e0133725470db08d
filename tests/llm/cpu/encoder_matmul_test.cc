// matmul of the CPU device with an encoder's matrices, for many rows.
#include <algorithm>

#include "error/error.h"
#include "llm/cpu/cpu_features.h"
#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/cpu/encoder_operands.h"
#include "tests/llm/kernels/plain_activation.h"

namespace vesper::encoder_matmul_test {
namespace {

struct Product {
  MatmulParams params{};
  Compute compute = Compute::kF32;
  Buffer in{kDTypeF32, 0}, out{kDTypeF32, 0};
  std::vector<float> weight, bias, residual;
  bool has_bias = false, has_residual = false, in_place = false;
};

size_t in_offset(const MatmulParams& p, size_t r) {
  return r / p.rows_per_batch * p.in_batch_stride + r % p.rows_per_batch * p.in_row_stride;
}
size_t out_offset(const MatmulParams& p, size_t r) {
  return r / p.rows_per_batch * p.out_batch_stride + r % p.rows_per_batch * p.out_row_stride;
}

// A product with random operands; `stride` is that of input rows, 0: n_in.
Product random_product(std::mt19937& random, uint32_t n_rows, uint32_t n_out, uint32_t n_in,
                       uint32_t n_batches, uint32_t stride, uint32_t activation, uint32_t in_dtype,
                       uint32_t out_dtype, Compute compute) {
  Product product;
  MatmulParams& p = product.params;
  p.n_rows = n_rows * n_batches;
  p.n_out = n_out;
  p.n_in = n_in;
  p.rows_per_batch = n_rows;
  p.in_row_stride = stride ? stride : n_in;
  p.in_batch_stride = (n_rows - 1) * p.in_row_stride + n_in + random() % 5;
  p.out_row_stride = n_out + random() % 7;
  p.out_batch_stride = n_rows * p.out_row_stride + random() % 5;
  p.in_dtype = in_dtype;
  p.out_dtype = out_dtype;
  p.activation = activation;
  product.compute = compute;
  product.in = Buffer(in_dtype, size_t{n_batches} * p.in_batch_stride);
  product.in.fill_random(random);
  product.out = Buffer(out_dtype, size_t{n_batches} * p.out_batch_stride);
  product.out.fill_nan();
  std::normal_distribution<float> normal;
  product.weight.resize(size_t{n_out} * n_in);
  for (float& w : product.weight) w = normal(random) * 0.1f;
  product.bias.resize(n_out);
  for (float& b : product.bias) b = normal(random);
  product.residual.resize(product.out.size());
  for (float& r : product.residual) r = normal(random);
  return product;
}

void run(Product& product, uint32_t n_threads = 2, uint64_t shuffle_seed = 0) {
  DeviceOptions options;
  options.n_threads = n_threads;
  options.shuffle_seed = shuffle_seed;
  const std::unique_ptr<Device> device = open_cpu_device(options);
  MatmulParams params = product.params;
  const testing::FileMatrix file(product.weight, params.n_out, params.n_in, DType::kF32);
  const Weight weight = device->upload(file.source(), WeightUse::kManyRows, product.compute);
  params.weight_format = weight.format;
  const Operand out = testing::store(*device, product.out.bytes);
  DispatchTable table;
  emit::matmul(table, "test", params, out, testing::store(*device, product.in.bytes), weight.data,
               product.has_bias ? testing::store(*device, product.bias) : Operand{},
               product.in_place       ? out
               : product.has_residual ? testing::store(*device, product.residual)
                                      : Operand{},
               weight.scale);
  testing::run_once(*device, table);
  product.out.bytes = testing::fetch<uint8_t>(*device, out);
}

// Compares with a loop in double precision. Allowed: a part of the sum of |in| |weight|, the
// rounding of int8, and the rounding of the output.
void expect_right(const Product& product, const Buffer& before) {
  const MatmulParams& p = product.params;
  const std::vector<double> in_values = product.in.values();
  double worst = 0.0;
  for (size_t r = 0; r < p.n_rows; ++r) {
    double row_max = 0.0;
    for (size_t i = 0; i < p.n_in; ++i) {
      row_max = std::max(row_max, std::abs(in_values[in_offset(p, r) + i]));
    }
    for (size_t o = 0; o < p.n_out; ++o) {
      const float* weight = product.weight.data() + o * p.n_in;
      double sum = 0.0, magnitude = 0.0, sum_in = 0.0, sum_weight = 0.0, weight_max = 0.0;
      for (size_t i = 0; i < p.n_in; ++i) {
        const double x = in_values[in_offset(p, r) + i];
        sum += x * weight[i];
        magnitude += std::abs(x * weight[i]);
        sum_in += std::abs(x);
        sum_weight += std::abs(weight[i]);
        weight_max = std::max<double>(weight_max, std::abs(weight[i]));
      }
      double allowed = 1e-5 * magnitude + 1e-6;
      if (product.compute == Compute::kBF16) allowed = 1.0 / 128 * magnitude;
      if (product.compute == Compute::kI8) {
        const double in_step = row_max / 127 * 0.5001, weight_step = weight_max / 127 * 0.5001;
        allowed += in_step * sum_weight + weight_step * sum_in + in_step * weight_step * p.n_in;
      }
      if (product.has_bias) sum += product.bias[o];
      if (p.activation != kActivationNone) {
        sum = test::plain_activation(p.activation, sum);
        allowed = allowed * 1.13 + (p.out_dtype == kDTypeF32 ? 1e-6 : 1e-4);  // its largest slope
      }
      const size_t at = out_offset(p, r) + o;
      if (product.in_place) sum += before.at(at);
      if (product.has_residual) {
        sum += p.flags & kMatmulResidualByRow ? product.residual[r % p.rows_per_batch * p.n_out + o]
                                              : product.residual[at];
      }
      allowed += rounding_of(p.out_dtype) * std::abs(sum) + 3e-8;  // half of the least f16
      const double error = std::abs(product.out.at(at) - sum);
      ASSERT_LE(error, allowed) << "row " << r << " of " << p.n_rows << ", output " << o << " of "
                                << p.n_out << ", n_in " << p.n_in << ", compute "
                                << static_cast<int>(product.compute);
      worst = std::max(worst, error / (allowed + 1e-30));
    }
  }
  EXPECT_GT(worst, 0.0);  // otherwise nothing was compared
}

void expect_untouched_between_rows(const Product& product, const Buffer& before) {
  const MatmulParams& p = product.params;
  std::vector<bool> written(before.size());
  for (size_t r = 0; r < p.n_rows; ++r) {
    std::fill_n(written.begin() + out_offset(p, r), p.n_out, true);
  }
  const size_t size = dtype_size(p.out_dtype);
  for (size_t i = 0; i < before.size(); ++i) {
    if (written[i]) continue;
    ASSERT_EQ(std::memcmp(&before.bytes[i * size], &product.out.bytes[i * size], size), 0)
        << "element " << i << " belongs to no row";
  }
}

class EncoderMatmul : public ::testing::TestWithParam<Compute> {
 protected:
  // Compute::kAuto: bf16, or f32 on CPUs without bf16 products.
  static Compute compute() { return testing::cpu(1)->resolve(GetParam(), WeightUse::kManyRows); }
};

TEST_P(EncoderMatmul, EqualsAPlainLoopForRandomShapes) {
  std::mt19937 random(7);
  const uint32_t sizes[] = {1, 7, 16, 33, 80, 129, 240};
  for (int i = 0; i < 60; ++i) {
    const uint32_t rows = i % 5 == 0 ? 1 + random() % 400 : 1 + random() % 40;
    const uint32_t outputs = i % 3 ? sizes[random() % 7] : 1 + random() % 200;
    const uint32_t inputs = i % 3 ? sizes[random() % 7] : 1 + random() % 300;
    Product product =
        random_product(random, rows, outputs, inputs, 1 + random() % 3, 0,
                       test::kAllActivations[random() % std::size(test::kAllActivations)],
                       random() % 3, random() % 3, compute());
    product.has_bias = random() % 2;
    product.has_residual = random() % 2;
    if (product.has_residual && random() % 2) product.params.flags |= kMatmulResidualByRow;
    const Buffer before = product.out;
    run(product, 1 + random() % 4);
    expect_right(product, before);
    expect_untouched_between_rows(product, before);
    if (HasFatalFailure()) return;
  }
}

TEST_P(EncoderMatmul, OverOverlappingRowsIsAConvolution) {
  std::mt19937 random(8);
  for (uint32_t stride : {1u, 2u}) {
    const uint32_t channels = 80;
    Product product = random_product(random, 150, 48, 3 * channels, 2, stride * channels,
                                     kActivationGelu, kDTypeF32, kDTypeF32, compute());
    product.has_bias = true;
    const Buffer before = product.out;
    run(product);
    expect_right(product, before);
  }
}

TEST_P(EncoderMatmul, AddsToItsResidualInPlace) {
  std::mt19937 random(9);
  Product product = random_product(random, 77, 65, 128, 1, 0, 0, kDTypeBF16, kDTypeF32, compute());
  product.out.fill_random(random);
  product.in_place = product.has_bias = true;
  const Buffer before = product.out;
  run(product);
  expect_right(product, before);
}

TEST_P(EncoderMatmul, DoesNotDependOnThreadsOrOrder) {
  std::mt19937 random(10);
  Product product =
      random_product(random, 311, 96, 200, 1, 0, kActivationGelu, kDTypeF32, kDTypeF32, compute());
  run(product, 1);
  const std::vector<uint8_t> one = product.out.bytes;
  for (uint32_t threads : {2u, 3u, 16u}) {
    product.out.fill_nan();
    run(product, threads, 7 + threads);
    EXPECT_EQ(one, product.out.bytes) << threads << " threads";
  }
}

TEST_P(EncoderMatmul, IsTheSameFromSeveralThreads) {
  std::mt19937 random(11);
  Product product = random_product(random, 500, 64, 96, 1, 0, 0, kDTypeF32, kDTypeF32, compute());
  run(product, 1);
  const std::vector<uint8_t> alone = product.out.bytes;
  product.out.fill_nan();
  run(product, 2);
  EXPECT_EQ(alone, product.out.bytes);
}

INSTANTIATE_TEST_SUITE_P(Computes, EncoderMatmul,
                         ::testing::Values(Compute::kF32, Compute::kAuto, Compute::kI8),
                         [](const auto& compute) {
                           return compute.param == Compute::kF32    ? "F32"
                                  : compute.param == Compute::kAuto ? "Auto"
                                                                    : "I8";
                         });

TEST(EncoderMatmulBf16, IsSelectedIfTheCpuSupportsIt) {
  const auto device = testing::cpu();
  const bool has_bf16 = cpu_features().avx512_bf16;
  EXPECT_EQ(device->resolve(Compute::kAuto, WeightUse::kManyRows),
            has_bf16 ? Compute::kBF16 : Compute::kF32);
  const testing::FileMatrix file(std::vector<float>(8), 2, 4, DType::kF32);
  const auto upload = [&] { device->upload(file.source(), WeightUse::kManyRows, Compute::kBF16); };
  if (has_bf16) {
    EXPECT_NO_THROW(upload());
  } else {
    EXPECT_THROW(upload(), Error);
  }
}

// Also for six bf16 products (gemm_amx.h): without any of them the error is more than three times
// as large.
TEST(EncoderMatmulF32, IsAsExactAsALoopInF32) {
  std::mt19937 random(11);
  Product product =
      random_product(random, 70, 96, 1536, 1, 0, 0, kDTypeF32, kDTypeF32, Compute::kF32);
  run(product);
  const MatmulParams& p = product.params;
  const std::vector<double> in = product.in.values();
  double squares = 0, squares_of_loop = 0;
  for (size_t r = 0; r < p.n_rows; ++r) {
    for (size_t o = 0; o < p.n_out; ++o) {
      double sum = 0;
      float loop = 0;
      for (size_t i = 0; i < p.n_in; ++i) {
        const double x = in[in_offset(p, r) + i];
        const float w = product.weight[o * p.n_in + i];
        sum += x * w;
        loop += static_cast<float>(x) * w;
      }
      squares += std::pow(product.out.at(out_offset(p, r) + o) - sum, 2);
      squares_of_loop += std::pow(loop - sum, 2);
    }
  }
  EXPECT_LE(std::sqrt(squares), 1.1 * std::sqrt(squares_of_loop));
}

// A product of one row of 4 inputs with a weight of 2 outputs.
MatmulParams small_params(const Weight& weight) {
  MatmulParams params{};
  params.n_rows = params.rows_per_batch = 1;
  params.n_out = params.out_row_stride = 2;
  params.n_in = params.in_row_stride = 4;
  params.weight_format = weight.format;
  return params;
}

TEST(EncoderMatmulI8, KeepsTheScalesOfTheFile) {
  const auto device = testing::cpu();
  const int8_t numbers[2][4] = {{1, -2, 3, -127}, {127, 0, 5, 1}};
  TensorView view;
  view.file_name = "test.weight";
  view.dtype = DType::kI8;
  view.shape = {2, 4};
  view.data = numbers;
  view.bytes = sizeof numbers;
  view.scale = {0.5f, 2.0f};
  const Weight weight = device->upload({{&view}}, WeightUse::kManyRows, Compute::kI8);
  // Quantized with scale 1: exact.
  const Operand in = testing::store(*device, std::vector<float>{127.0f, -1.0f, 2.0f, 64.0f});
  const Operand out = testing::nan_buffer(*device, 2, DType::kF32);
  DispatchTable table;
  emit::matmul(table, "test", small_params(weight), out, in, weight.data, {}, {}, weight.scale);
  testing::run_once(*device, table);
  const std::vector<float> found = testing::fetch<float>(*device, out);
  EXPECT_FLOAT_EQ(found[0], 0.5f * (127 + 2 + 6 - 127 * 64));
  EXPECT_FLOAT_EQ(found[1], 2.0f * (127 * 127 + 10 + 64));
}

TEST(EncoderMatmulContract, RefusesParametersOfAnotherMatrix) {
  const auto device = testing::cpu();
  const testing::FileMatrix file(std::vector<float>(8), 2, 4, DType::kF32);
  const Weight weight = device->upload(file.source(), WeightUse::kManyRows, Compute::kF32);
  const Operand numbers = device->allocate(4096, "numbers");
  for (const bool more_outputs : {true, false}) {
    MatmulParams params = small_params(weight);
    (more_outputs ? params.n_out : params.n_in) = 100;
    DispatchTable table;
    emit::matmul(table, "test", params, numbers.part(0, 2048), numbers.from(2048), weight.data, {},
                 {}, {});
    EXPECT_THROW(device->record(table), Error);
  }
}

}  // namespace
}  // namespace vesper::encoder_matmul_test

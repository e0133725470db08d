#include <cmath>
#include <string>

#include "tests/llm/kernels/plain_activation.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::matmul_test {
namespace {

struct MatmulCase {
  uint32_t rows, n_out, n_in;
  DType file, in, out;
  uint32_t activation = kActivationNone;
  bool bias = true, residual = false;
  Compute compute = Compute::kF32;
  bool gated = false;
  WeightUse use = WeightUse::kAnyRows;
};

std::string case_name(const testing::TestParamInfo<MatmulCase>& info) {
  const MatmulCase& c = info.param;
  const char* formats[] = {"f32", "f16", "bf16", "i8"};
  return std::to_string(info.index) + "_" + std::to_string(c.rows) + "x" + std::to_string(c.n_out) +
         "x" + std::to_string(c.n_in) + "_" + formats[static_cast<int>(c.file)] + "_" +
         formats[static_cast<int>(c.in)] + "_" + formats[static_cast<int>(c.out)];
}

class Matmul : public VulkanTest, public testing::WithParamInterface<MatmulCase> {
 protected:
  void check(const MatmulCase& c, uint32_t n_runs = 1);
};

TEST_P(Matmul, EqualsAPlainLoop) { check(GetParam()); }

class MatmulTiles : public Matmul {};

TEST_P(MatmulTiles, AllEqualAPlainLoop) {
  for (const std::string& tile : matmul_tiles(GetParam().use == WeightUse::kManyRows)) {
    for (const std::string splits : {"1", "3"}) {
      SCOPED_TRACE(tile + ", splits " + splits);
      tune(tile + ",matmul_splits=" + splits);
      check(GetParam(), 2);
    }
  }
}

// Later runs find the counters of split columns as the first one left them.
void Matmul::check(const MatmulCase& c, uint32_t n_runs) {
  engine_.seed(c.rows * 7919 + c.n_out * 31 + c.n_in);
  const uint32_t n_sums = c.gated ? 2 * c.n_out : c.n_out;
  std::vector<float> in = random(size_t{c.rows} * c.n_in);
  std::vector<float> weight = random(size_t{n_sums} * c.n_in);
  std::vector<float> bias = random(n_sums), residual = random(size_t{c.rows} * c.n_out);
  const Weight uploaded = upload(weight, n_sums, c.n_in, c.file, c.compute, c.use,
                                 c.gated ? MatrixKind::kGates : MatrixKind::kPlain);
  // Only matrix units have gates of many rows.
  if (c.gated && c.rows < uploaded.gate_from_rows) return;
  const Operand in_buffer = store(in, c.in);
  MatmulParams p{};
  p.n_rows = p.rows_per_batch = c.rows;
  p.n_out = p.out_row_stride = c.n_out;
  p.n_in = p.in_row_stride = c.n_in;
  p.in_dtype = static_cast<uint32_t>(c.in);
  p.out_dtype = static_cast<uint32_t>(c.out);
  p.weight_format = uploaded.format;
  p.activation = c.activation;
  p.flags = c.gated ? kMatmulGated : 0;
  Operand out;
  for (uint32_t i = 0; i < n_runs; ++i) {
    out = poisoned(residual.size(), c.out);
    DispatchTable table;
    emit::matmul(table, "product", p, out, in_buffer, uploaded.data,
                 c.bias ? store(bias, DType::kF32) : Operand{},
                 c.residual ? store(residual, DType::kF32) : Operand{}, uploaded.scale);
    run(table);
  }
  const std::vector<float> found = load(out, c.out);

  const bool halves = c.in == DType::kF16 || c.out == DType::kF16 || c.compute != Compute::kF32;
  const double tolerance = halves ? 2e-3 : 1e-5;
  for (uint32_t r = 0; r < c.rows; ++r) {
    for (uint32_t o = 0; o < c.n_out; ++o) {
      const auto product = [&](uint32_t row, double& size) {
        double sum = c.bias ? bias[row] : 0.0;
        size = std::abs(sum);
        for (uint32_t k = 0; k < c.n_in; ++k) {
          const double x = double{in[size_t{r} * c.n_in + k]} * weight[size_t{row} * c.n_in + k];
          sum += x;
          size += std::abs(x);
        }
        return sum;
      };
      double size = 0, other_size = 0;
      double sum = test::plain_activation(c.activation, product(o, size));
      if (c.gated) {
        const double other = product(c.n_out + o, other_size);
        size = size * (std::abs(other) + other_size) + std::abs(sum) * other_size;
        sum *= other;
      }
      const size_t at = size_t{r} * c.n_out + o;
      if (c.residual) {
        sum += residual[at];
        size += std::abs(residual[at]);
      }
      ASSERT_LE(std::abs(found[at] - sum), tolerance * size) << "row " << r << ", output " << o;
    }
  }
}

// out = silu(gate) * up, where gate and up are products with an RMS norm or a layer norm of the
// input.
class NormsAndGates : public VulkanTest, public testing::WithParamInterface<const char*> {};

TEST_P(NormsAndGates, OfFewRowsAreWithinProducts) {
  tune(GetParam());
  enum class Norm { kNone, kRms, kLayer };
  constexpr float kEpsilon = 1e-5f;
  uint32_t n_tested = 0;
  struct Shape {
    uint32_t rows, n_out, n_in;
    DType file;
  };
  for (const auto& [rows, n_out, n_in, file] :
       {Shape{1, 7, 7, DType::kF32}, Shape{1, 300, 512, DType::kF16}, Shape{3, 65, 96, DType::kF16},
        Shape{2, 33, 5120, DType::kF16}, Shape{4, 64, 1000, DType::kI8},
        Shape{3, 64, 1000, DType::kI8}, Shape{6, 36, 512, DType::kF16},
        Shape{8, 9, 41, DType::kF32}}) {
    for (const Norm norm : {Norm::kNone, Norm::kRms, Norm::kLayer}) {
      for (const bool gated : {false, true}) {
        SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(n_out) + " x " +
                     std::to_string(n_in) + ", norm " + std::to_string(static_cast<int>(norm)) +
                     (gated ? ", gates" : ""));
        const uint32_t n_sums = gated ? 2 * n_out : n_out;
        std::vector<float> in = random(size_t{rows} * n_in, 3.0f), norm_weight = random(n_in);
        for (float& x : in) x += 5;
        std::vector<float> norm_bias(n_in);
        if (norm == Norm::kLayer) norm_bias = random(n_in);
        norm_weight.insert(norm_weight.end(), norm_bias.begin(), norm_bias.end());
        std::vector<float> weight = random(size_t{n_sums} * n_in), bias = random(n_sums);
        const Weight uploaded = upload(weight, n_sums, n_in, file, Compute::kF32);
        ASSERT_GE(uploaded.norm_rows, 1u);
        // With more rows or longer ones, norms and gates are commands of their own.
        if (rows > (norm == Norm::kLayer ? uploaded.layer_norm_rows : uploaded.gate_rows)) continue;
        ++n_tested;
        MatmulParams p = product(rows, n_out, uploaded, DType::kF32, DType::kF32);
        p.flags = (gated ? kMatmulGated : 0) | (norm == Norm::kLayer ? kMatmulLayerNorm : 0);
        p.activation = gated ? kActivationSilu : kActivationNone;
        p.norm_epsilon = kEpsilon;
        const Operand out = poisoned(size_t{rows} * n_out, DType::kF32);
        DispatchTable table;
        emit::matmul(table, "product", p, out, store(in, DType::kF32), uploaded.data,
                     store(bias, DType::kF32), {}, uploaded.scale, {},
                     norm != Norm::kNone ? store(norm_weight, DType::kF32) : Operand{});
        run(table);
        const std::vector<float> found = load(out, DType::kF32);
        for (uint32_t r = 0; r < rows; ++r) {
          double mean = 0, squares = 0;
          if (norm == Norm::kLayer) {
            for (uint32_t k = 0; k < n_in; ++k) mean += double{in[size_t{r} * n_in + k]} / n_in;
          }
          for (uint32_t k = 0; k < n_in; ++k) {
            squares += std::pow(in[size_t{r} * n_in + k] - mean, 2.0);
          }
          const double factor = norm == Norm::kNone ? 1 : 1 / std::sqrt(squares / n_in + kEpsilon);
          const auto product = [&](uint32_t o, double& size) {
            double sum = 0;
            for (uint32_t k = 0; k < n_in; ++k) {
              const double normed = (in[size_t{r} * n_in + k] - mean) * factor *
                                        (norm == Norm::kNone ? 1.0f : norm_weight[k]) +
                                    norm_bias[k];
              const double x = normed * weight[size_t{o} * n_in + k];
              sum += x;
              size += std::abs(x);
            }
            return sum + bias[o];
          };
          for (uint32_t o = 0; o < n_out; ++o) {
            double size = 1, other_size = 1;
            double wanted = product(o, size);
            if (gated) {
              const double other = product(n_out + o, other_size);
              size *= std::abs(other) + other_size;
              wanted = test::plain_activation(kActivationSilu, wanted) * other;
            }
            ASSERT_NEAR(found[size_t{r} * n_out + o], wanted, 1e-5 * size) << r << ", " << o;
          }
        }
      }
    }
  }
  EXPECT_EQ(n_tested, 36u);
}

// By default a software device has one subgroup per workgroup.
INSTANTIATE_TEST_SUITE_P(Shapes, NormsAndGates,
                         testing::Values("vector_rows=4x2,vector_shape=2x2,vector_ahead=3",
                                         "vector_rows=4x2,vector_ahead=1"));

constexpr DType f32 = DType::kF32, f16 = DType::kF16, i8 = DType::kI8;

INSTANTIATE_TEST_SUITE_P(
    OneToEightRows, Matmul,
    testing::Values(MatmulCase{1, 7, 7, f32, f32, f32}, MatmulCase{1, 1, 1, f16, f32, f32},
                    MatmulCase{1, 51865, 384, f16, f32, f32, 0, false},
                    MatmulCase{1, 51865, 512, i8, f32, f32, 0, false},
                    MatmulCase{1, 1536, 384, f16, f32, f32, kActivationGelu},
                    MatmulCase{1, 384, 1536, f16, f32, f32, 0, true, true},
                    MatmulCase{7, 1500, 80, f16, f32, f16}, MatmulCase{8, 33, 1500, f16, f16, f32},
                    MatmulCase{3, 129, 51, i8, f32, f32}, MatmulCase{5, 256, 512, i8, f16, f16},
                    MatmulCase{2, 100, 5120, f32, f32, f32, kActivationGelu, true, true},
                    MatmulCase{1, 65, 96, f16, f32, f32, kActivationGeluTanh, true, true},
                    MatmulCase{3, 65, 96, f16, f32, f32, kActivationSilu},
                    MatmulCase{8, 65, 96, f16, f32, f32, kActivationRelu},
                    MatmulCase{2, 65, 96, f16, f32, f32, kActivationSigmoid}),
    case_name);
INSTANTIATE_TEST_SUITE_P(
    ManyRows, Matmul,
    testing::Values(
        MatmulCase{9, 7, 7, f32, f32, f32}, MatmulCase{1500, 384, 240, f16, f32, f32},
        MatmulCase{1500, 130, 384, f16, f16, f16, kActivationGelu, true, true},
        MatmulCase{65, 1152, 384, f16, f32, f32, 0, true, true},
        MatmulCase{224, 51, 1500, f32, f32, f32},
        MatmulCase{100, 200, 300, i8, f32, f32, kActivationGelu},
        MatmulCase{77, 512, 520, i8, f16, f16},
        MatmulCase{90, 65, 96, f16, f32, f32, kActivationGeluTanh, true, true},
        MatmulCase{90, 65, 96, f16, f32, f32, kActivationSilu},
        MatmulCase{90, 65, 96, f16, f32, f32, kActivationRelu},
        MatmulCase{90, 65, 96, f16, f32, f32, kActivationSigmoid},
        MatmulCase{90, 72, 96, f16, f16, f16, kActivationGeluTanh, true, true, Compute::kF16},
        MatmulCase{90, 65, 96, f16, f16, f32, kActivationRelu, true, false, Compute::kF16},
        MatmulCase{13, 51865, 64, f16, f32, f32},
        MatmulCase{300, 384, 384, f32, f16, f32, 0, true, true, Compute::kF16},
        MatmulCase{1500, 200, 72, f16, f16, f16, kActivationGelu, false, false, Compute::kF16},
        MatmulCase{260, 384, 1536, f16, f32, f32, 0, true, true, Compute::kF16},
        MatmulCase{129, 257, 104, f16, f16, f32, 0, true, false, Compute::kF16},
        // With matrix units, in the order of matrices.
        MatmulCase{300, 384, 384, f32, f16, f32, 0, true, true, Compute::kF16, false,
                   WeightUse::kManyRows},
        MatmulCase{5, 48, 72, f16, f16, f16, kActivationGelu, false, false, Compute::kF16, false,
                   WeightUse::kManyRows},
        MatmulCase{40, 50, 64, f16, f32, f16, 0, true, false, Compute::kF16, false,
                   WeightUse::kManyRows},
        // Large products have another tile than small ones.
        MatmulCase{1300, 1290, 136, f16, f16, f16, 0, true, false, Compute::kF16}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    , MatmulTiles,
    testing::Values(
        MatmulCase{390, 330, 264, f16, f16, f32, kActivationGelu, true, true, Compute::kF16},
        MatmulCase{390, 333, 200, i8, f32, f16, 0, true, false, Compute::kF16},
        MatmulCase{390, 168, 264, f16, f16, f16, kActivationSilu, true, false, Compute::kF16, true},
        MatmulCase{70, 77, 200, i8, f32, f32, kActivationGeluTanh, true, true, Compute::kF16, true},
        MatmulCase{390, 336, 264, f16, f16, f32, kActivationGelu, true, true, Compute::kF16, false,
                   WeightUse::kManyRows},
        MatmulCase{70, 168, 520, f32, f16, f16, kActivationSilu, true, false, Compute::kF16, true,
                   WeightUse::kManyRows}),
    case_name);

class MatmulChoice : public VulkanTest {};

TEST_F(MatmulChoice, MatrixUnitsMultiplyFromANumberOfRowsOn) {
  const bool has_units = device().resolve(Compute::kAuto, WeightUse::kManyRows) == Compute::kF16;
  struct Shape {
    uint32_t n_out, n_in;
    uint32_t most_rows;  // that are not for matrix units
  };
  for (const auto& [n_out, n_in, most_rows] :
       {Shape{2048, 1024, 5}, Shape{2056, 1024, 3}, Shape{8, 4096, 8}, Shape{16376, 8, 5},
        Shape{16384, 8, 2}}) {
    SCOPED_TRACE(std::to_string(n_out) + " x " + std::to_string(n_in));
    std::vector<float> values(size_t{n_out} * n_in);
    const Weight weight = upload(values, n_out, n_in, DType::kF16, Compute::kAuto);
    const uint32_t most = has_units ? most_rows : 8;
    for (const uint32_t rows : {most, most + 1}) {
      DispatchTable table;
      emit::matmul(table, "product", product(rows, n_out, weight, DType::kF32, DType::kF32),
                   poisoned(size_t{rows} * n_out, DType::kF32),
                   poisoned(size_t{rows} * n_in, DType::kF32), weight.data, {}, {}, weight.scale);
      const std::string found = device().variants(device().record(table))[0].variant;
      EXPECT_EQ(found, rows == most ? "matmul_vector"
                       : has_units  ? "matmul_cooperative"
                                    : "matmul_tiled");
    }
  }
}

class MatmulLayout : public VulkanTest {
 protected:
  struct Convolution {
    uint32_t channels, n_out;
    uint32_t in_gap;   // elements between the batches of the input
    uint32_t row_gap;  // between the rows of the output
    uint32_t out_gap;  // between its batches
    DType dtype;       // of the weight and the input
    WeightUse use = WeightUse::kAnyRows;
  };
  void check(const Convolution& c);
};

// A convolution of width 3 and stride 2 over two padded buffers.
void MatmulLayout::check(const Convolution& c) {
  constexpr uint32_t kFrames = 41, kRows = (kFrames - 3) / 2 + 1;
  const bool is_f32 = c.dtype == DType::kF32;
  const uint32_t in_batch = kFrames * c.channels + c.in_gap;
  const uint32_t out_row = c.n_out + c.row_gap, out_batch = kRows * out_row + c.out_gap;
  std::vector<float> in = random(size_t{2} * in_batch), weight = random(c.n_out * 3 * c.channels);
  std::vector<float> position = random(kRows * c.n_out);
  const Weight uploaded = upload(weight, c.n_out, 3 * c.channels, c.dtype,
                                 is_f32 ? Compute::kF32 : Compute::kF16, c.use);
  const Operand out = poisoned(size_t{2} * out_batch, DType::kF32);
  MatmulParams p = product(2 * kRows, c.n_out, uploaded, c.dtype, DType::kF32);
  p.rows_per_batch = kRows;
  p.in_row_stride = 2 * c.channels;
  p.out_row_stride = out_row;
  p.in_batch_stride = in_batch;
  p.out_batch_stride = out_batch;
  p.flags = kMatmulResidualByRow;
  DispatchTable table;
  emit::matmul(table, "convolution", p, out, store(in, c.dtype), uploaded.data, {},
               store(position, DType::kF32), {});
  run(table);
  const std::vector<float> found = load(out, DType::kF32);
  for (uint32_t b = 0; b < 2; ++b) {
    for (uint32_t r = 0; r < kRows; ++r) {
      for (uint32_t o = 0; o < c.n_out; ++o) {
        double sum = position[r * c.n_out + o], size = std::abs(sum);
        for (uint32_t k = 0; k < p.n_in; ++k) {
          const double product =
              double{in[b * in_batch + r * p.in_row_stride + k]} * weight[o * p.n_in + k];
          sum += product;
          size += std::abs(product);
        }
        ASSERT_LE(std::abs(found[b * out_batch + r * out_row + o] - sum),
                  (is_f32 ? 1e-5 : 2e-3) * size);
      }
      for (uint32_t i = c.n_out; i < out_row; ++i) {
        ASSERT_TRUE(std::isnan(found[b * out_batch + r * out_row + i]))
            << "what lies between rows was written";
      }
    }
    for (uint32_t i = kRows * out_row; i < out_batch; ++i) {
      ASSERT_TRUE(std::isnan(found[b * out_batch + i])) << "what lies between batches was written";
    }
  }
}

TEST_F(MatmulLayout, RowsMayOverlapAndLieInBatches) {
  for (const uint32_t in_gap : {0u, 5u}) check({6, 10, in_gap, 2, 36, DType::kF32});
}

TEST_F(MatmulLayout, RowsOnMatrixUnitsMayOverlapAndLieInBatches) {
  for (const WeightUse use : {WeightUse::kAnyRows, WeightUse::kManyRows}) {
    // Without gaps, the rows of the output have a common stride, those of the input do not.
    for (const uint32_t gap : {0u, 8u}) check({8, 16, gap, 0, gap, DType::kF16, use});
  }
}

TEST_F(MatmulLayout, ConvolutionKernelsAreStoredTapByTap) {
  constexpr uint32_t kChannels = 5, kOut = 3;
  std::vector<float> kernel = random(kOut * kChannels * 3), in = random(3 * kChannels);
  TensorView tensor;
  tensor.name = tensor.file_name = "conv";
  tensor.shape = {kOut, kChannels, 3};
  tensor.data = kernel.data();
  tensor.bytes = kernel.size() * 4;
  const Weight weight =
      device().upload({{&tensor}, MatrixKind::kConvolution}, WeightUse::kManyRows, Compute::kF32);
  EXPECT_EQ(weight.n_in, 3 * kChannels);
  MatmulParams p{};
  p.n_rows = p.rows_per_batch = 1;
  p.n_out = p.out_row_stride = kOut;
  p.n_in = p.in_row_stride = 3 * kChannels;
  p.weight_format = weight.format;
  const Operand out = poisoned(kOut, DType::kF32);
  DispatchTable table;
  emit::matmul(table, "convolution", p, out, store(in, DType::kF32), weight.data, {}, {}, {});
  run(table);
  const std::vector<float> found = load(out, DType::kF32);
  for (uint32_t o = 0; o < kOut; ++o) {
    double sum = 0;
    for (uint32_t c = 0; c < kChannels; ++c) {
      for (uint32_t t = 0; t < 3; ++t) {
        sum += double{in[t * kChannels + c]} * kernel[(o * kChannels + c) * 3 + t];
      }
    }
    EXPECT_NEAR(found[o], sum, 1e-4);
  }
}

}  // namespace
}  // namespace vesper::matmul_test

// Rows of int8: products with them by shaders, for every file format, compared with plain loops
// over the same rounded rows, and the commands that write them.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "tests/llm/kernels/quantized_matrix.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::int8_rows_test {
namespace {

constexpr uint32_t kBlock = 32;
constexpr float kEpsilon = 1e-5f;

struct Product {
  uint32_t n_rows = 1, n_out = 64, n_in = 512;
  DType in = DType::kF32, out = DType::kF32;
  bool norm = false, gated = false, residual = false;
};

class Int8Rows : public VulkanTest {
 protected:
  // Rounds every block of `values` to 127 steps of its greatest; the scale of each block.
  static std::vector<float> quantize(std::vector<float>& values) {
    std::vector<float> scales;
    for (size_t first = 0; first < values.size(); first += kBlock) {
      float greatest = 0;
      for (size_t i = 0; i < kBlock; ++i)
        greatest = std::max(greatest, std::abs(values[first + i]));
      const float inverse = greatest == 0 ? 0 : 127.0f / greatest;
      scales.push_back(greatest / 127.0f);
      for (size_t i = 0; i < kBlock; ++i) {
        values[first + i] = std::nearbyint(values[first + i] * inverse) * scales.back();
      }
    }
    return scales;
  }

  static uint64_t int8_bytes(size_t n) { return n + n / 4; }

  // The first bit of a column in its word: the second and third of four are exchanged.
  static size_t column_bit(size_t column) { return std::array{0, 16, 8, 24}[column % 4]; }

  // The buffer of rounded rows, as shaders/int8_rows.glsl describes it.
  static Operand store_int8(const std::vector<float>& values, const std::vector<float>& scales) {
    std::vector<uint32_t> words(int8_bytes(values.size()) / 4);
    for (size_t block = 0; block < scales.size(); ++block) {
      int totals[2] = {};
      for (size_t i = 0; i < kBlock; ++i) {
        const size_t at = block * kBlock + i;
        const float steps = scales[block] == 0 ? 0 : values[at] / scales[block];
        const int code = static_cast<int>(std::lrint(steps));
        words[at / 4] |= static_cast<uint32_t>(code & 255) << column_bit(at);
        totals[i / 16] += code;
      }
      const size_t end = values.size() / 4 + 2 * block;
      words[end] = std::bit_cast<uint32_t>(scales[block]);
      words[end + 1] = static_cast<uint32_t>(totals[0] & 0xffff) | static_cast<uint32_t>(totals[1])
                                                                       << 16;
    }
    return store_structs(words);
  }

  // The n values of such a buffer; checks its totals.
  static std::vector<float> load_int8(const Operand& operand, size_t n,
                                      std::vector<float>* scales) {
    const std::vector<uint32_t> words = load_structs<uint32_t>(operand);
    std::vector<float> values(n);
    for (size_t block = 0; block < n / kBlock; ++block) {
      const float scale = std::bit_cast<float>(words[n / 4 + 2 * block]);
      const uint32_t packed = words[n / 4 + 2 * block + 1];
      int totals[2] = {};
      for (size_t i = 0; i < kBlock; ++i) {
        const size_t at = block * kBlock + i;
        const auto code = static_cast<int8_t>(words[at / 4] >> column_bit(at));
        totals[i / 16] += code;
        values[at] = static_cast<float>(code) * scale;
      }
      EXPECT_EQ(static_cast<int16_t>(packed), totals[0]) << "block " << block;
      EXPECT_EQ(static_cast<int16_t>(packed >> 16), totals[1]) << "block " << block;
      scales->push_back(scale);
    }
    return values;
  }

  // Values differ from `wanted` by half a step at most, and by what f32 sums differ.
  static void expect_rounded(const Operand& found, const std::vector<float>& wanted) {
    std::vector<float> scales;
    const std::vector<float> values = load_int8(found, wanted.size(), &scales);
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(values[i], wanted[i], 0.502f * scales[i / kBlock] + 1e-5f) << i;
      ASSERT_LE(std::abs(wanted[i]), 127.02f * scales[i / kBlock] + 1e-5f) << i;
    }
  }

  void check(const QuantizedMatrix& matrix, const Product& product) {
    const auto& [n_rows, n_out, n_in, in_dtype, out_dtype, norm, gated, residual] = product;
    SCOPED_TRACE(std::to_string(n_rows) + " rows, " + std::to_string(n_out) + " x " +
                 std::to_string(n_in));
    const uint32_t n_sums = gated ? 2 * n_out : n_out;
    const Weight weight = device().upload(matrix.source(), WeightUse::kAnyRows, Compute::kAuto);
    ASSERT_EQ(weight.n_out, n_sums);
    ASSERT_GE(weight.int8_rows, n_rows);
    std::vector<float> in = random(size_t{n_rows} * n_in), norm_weight = random(n_in);
    std::vector<float> bias = random(n_sums), before = random(size_t{n_rows} * n_out);
    Operand in_buffer;
    std::vector<double> factors(n_rows, 1.0);
    if (in_dtype == DType::kI8) {
      const std::vector<float> scales = quantize(in);
      in_buffer = store_int8(in, scales);
    } else {
      in_buffer = store(in, in_dtype);
      for (uint32_t r = 0; norm && r < n_rows; ++r) {
        double squares = 0;
        for (uint32_t k = 0; k < n_in; ++k) {
          float& value = in[size_t{r} * n_in + k];
          squares += double{value} * value;
          value *= norm_weight[k];
        }
        factors[r] = 1 / std::sqrt(squares / n_in + kEpsilon);
      }
      quantize(in);
    }
    MatmulParams p = VulkanTest::product(n_rows, n_out, weight, in_dtype, out_dtype);
    p.flags = gated ? kMatmulGated : 0;
    p.activation = gated ? kActivationSilu : kActivationNone;
    p.norm_epsilon = kEpsilon;
    const size_t n = size_t{n_rows} * n_out;
    const Operand out = out_dtype == DType::kI8 ? device().allocate(int8_bytes(n), "int8 rows")
                                                : poisoned(n, out_dtype);
    DispatchTable table;
    emit::matmul(table, "product", p, out, in_buffer, weight.data, store(bias, DType::kF32),
                 residual ? store(before, DType::kF32) : Operand{}, weight.scale, {},
                 norm ? store(norm_weight, DType::kF32) : Operand{});
    const ProgramId program = device().record(table);
    ASSERT_EQ(device().variants(program)[0].variant, "matmul_int8");
    device().run(program);
    std::vector<float> wanted(n), sizes(n);
    for (uint32_t r = 0; r < n_rows; ++r) {
      std::vector<double> sums(n_sums), of(n_sums);
      for (uint32_t o = 0; o < n_sums; ++o) {
        for (uint32_t k = 0; k < n_in; ++k) {
          const double term =
              factors[r] * in[size_t{r} * n_in + k] * matrix.numbers[size_t{o} * n_in + k];
          sums[o] += term;
          of[o] += std::abs(term);
        }
        sums[o] += bias[o];
      }
      for (uint32_t o = 0; o < n_out; ++o) {
        double value = sums[o], size = of[o];
        if (gated) {
          const double other = sums[n_out + o];
          value = value / (1 + std::exp(-value)) * other;
          size = 1.1 * of[o] * std::abs(other) + of[n_out + o] * (1 + std::abs(sums[o]));
        }
        if (residual) value += before[size_t{r} * n_out + o];
        wanted[size_t{r} * n_out + o] = static_cast<float>(value);
        sizes[size_t{r} * n_out + o] = static_cast<float>(size);
      }
    }
    // The device may divide with a smaller error than a step's boundary needs.
    constexpr float kTolerance = 1e-4f;
    std::vector<float> scales;
    const std::vector<float> found =
        out_dtype == DType::kI8 ? load_int8(out, n, &scales) : load(out, out_dtype);
    for (size_t i = 0; i < n; ++i) {
      const float step = scales.empty() ? 0.0f : scales[i / kBlock];
      const float halves = out_dtype == DType::kF16 ? 1e-3f * std::abs(wanted[i]) : 0.0f;
      ASSERT_NEAR(found[i], wanted[i], kTolerance * sizes[i] + 0.502f * step + halves + 1e-6f)
          << "row " << i / n_out << ", output " << i % n_out;
    }
  }
};

TEST_F(Int8Rows, ProductsEqualThePlainLoopInEveryFormat) {
  for (const QuantizedFormat& format : quantized_formats()) {
    SCOPED_TRACE(format.name());
    const QuantizedMatrix matrix(format, 37, 3 * format.unit(), 7);
    check(matrix, {.n_out = 37, .n_in = 3 * format.unit()});
    check(matrix, {.n_rows = 3, .n_out = 37, .n_in = 3 * format.unit(), .in = DType::kI8});
  }
}

TEST_F(Int8Rows, ProductsHaveNormsGatesResidualsAndInt8Results) {
  for (const DType dtype : {DType::kQ4_0, DType::kQ6_K}) {
    const QuantizedMatrix matrix({dtype}, 192, 512, 11);
    check(matrix, {.n_out = 192, .norm = true, .residual = true});
    check(matrix, {.n_rows = 8, .n_out = 192, .in = DType::kI8, .residual = true});
    check(matrix, {.n_rows = 2, .n_out = 192, .in = DType::kF16, .out = DType::kF16});
    check(matrix, {.n_out = 96, .norm = true, .gated = true});
    check(matrix, {.n_out = 96, .out = DType::kI8, .norm = true, .gated = true});
    check(matrix, {.n_rows = 2, .n_out = 192, .in = DType::kI8, .out = DType::kI8});
    check(matrix, {.n_out = 192, .out = DType::kI8});
    check(matrix, {.n_rows = 5, .n_out = 96, .in = DType::kI8, .out = DType::kI8, .gated = true});
  }
}

TEST_F(Int8Rows, LongRowsServeSeveralTurnsOfAWorkgroup) {
  // 96 results are not a multiple of what a workgroup writes.
  const QuantizedMatrix matrix({DType::kQ4_0}, 192, 4096, 3);
  check(matrix, {.n_out = 192, .n_in = 4096, .norm = true});
  check(matrix, {.n_out = 96, .n_in = 4096, .out = DType::kI8, .norm = true, .gated = true});
}

TEST_F(Int8Rows, LongRowsAreQuantizedInChunks) {
  // Eight rows of this width do not fit in a workgroup's shared memory at once.
  const QuantizedMatrix matrix({DType::kQ4_1}, 9, 9 * 1024 + 32, 5);
  check(matrix, {.n_rows = 8, .n_out = 9, .n_in = 9 * 1024 + 32, .norm = true});
}

TEST_F(Int8Rows, NormsWriteThem) {
  const uint32_t n_rows = 3, d = 576;
  std::vector<float> in = random(n_rows * d), weight = random(d);
  std::fill_n(in.begin(), kBlock, 0.0f);
  const auto emit = [&](DType dtype, const Operand& out) {
    DispatchTable table;
    emit::norm(table, "norm",
               {n_rows, d, kEpsilon, kNormRms, static_cast<uint32_t>(dtype), kDTypeF32, d}, out,
               store(in, DType::kF32), store(weight, DType::kF32), {}, {});
    run(table);
  };
  const Operand floats = poisoned(n_rows * d, DType::kF32);
  emit(DType::kF32, floats);
  const Operand bytes = device().allocate(int8_bytes(n_rows * d), "int8 rows");
  emit(DType::kI8, bytes);
  expect_rounded(bytes, load(floats, DType::kF32));
}

TEST_F(Int8Rows, AttentionWritesThem) {
  for (const auto& [head_dim, position] : {std::pair{64u, 40}, std::pair{128u, 900}}) {
    SCOPED_TRACE(head_dim);
    const uint32_t n_heads = 4, n_kv_heads = 2, page_rows = 32, n_pages = 32;
    const uint32_t width = n_heads * head_dim;
    std::vector<float> q = random(2 * width);
    std::vector<float> k = random(size_t{n_pages} * page_rows * n_kv_heads * head_dim);
    std::vector<float> v = random(k.size());
    const Operand k_pages = store(k, DType::kF16), v_pages = store(v, DType::kF16);
    std::vector<int32_t> pages(n_pages);
    for (uint32_t i = 0; i < n_pages; ++i) pages[i] = static_cast<int32_t>(i);
    const std::vector<Row> rows{{0, 0, position, 0}, {0, 0, 3, 0}};
    const auto emit = [&](DType dtype, const Operand& out) {
      PagedAttentionParams p{};
      p.n_rows = 2;
      p.n_heads = n_heads;
      p.n_kv_heads = n_kv_heads;
      p.head_dim = head_dim;
      p.q_row_stride = p.out_row_stride = width;
      p.page_rows = page_rows;
      p.pages_per_sequence = n_pages;
      p.scale = 0.1f;
      p.q_dtype = kDTypeF32;
      p.kv_dtypes = kv_dtypes_of(kDTypeF16, kDTypeF16);
      p.out_dtype = static_cast<uint32_t>(dtype);
      DispatchTable table;
      emit::paged_attention(table, "attention", p, out, store(q, DType::kF32), k_pages, v_pages,
                            store_structs(rows), store_structs(pages));
      run(table);
    };
    const Operand floats = poisoned(2 * width, DType::kF32);
    emit(DType::kF32, floats);
    const Operand bytes = device().allocate(int8_bytes(2 * width), "int8 rows");
    emit(DType::kI8, bytes);
    expect_rounded(bytes, load(floats, DType::kF32));
  }
}

}  // namespace
}  // namespace vesper::int8_rows_test

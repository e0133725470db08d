#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/llm/vulkan/device_fixture.h"
#include "tests/llm/vulkan/plain_attention.h"

namespace vesper::attention_test {
namespace {

struct AttentionCase {
  uint32_t n_sequences, rows, n_heads, n_kv_heads, head_dim;
  DType dtype;
  float growth = 0;  // of scores from one key to the next
};

class Attention : public VulkanTest, public testing::WithParamInterface<AttentionCase> {};

TEST_P(Attention, IsTheSoftmaxWeightedSumOfValues) {
  const AttentionCase c = GetParam();
  const uint32_t n_rows = c.n_sequences * c.rows, q_width = c.n_heads * c.head_dim;
  const uint32_t kv_width = c.n_kv_heads * c.head_dim, width = q_width + 2 * kv_width;
  std::vector<float> qkv = random(size_t{n_rows} * width);
  const float scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  // The first dimension adds growth * r to the scores of key r.
  for (uint32_t r = 0; c.growth != 0 && r < n_rows; ++r) {
    float* const row = &qkv[size_t{r} * width];
    for (uint32_t h = 0; h < c.n_heads; ++h) row[h * c.head_dim] = 1.0f / scale;
    for (uint32_t h = 0; h < c.n_kv_heads; ++h) {
      row[q_width + h * c.head_dim] = c.growth * static_cast<float>(r % c.rows);
    }
  }
  const Operand qkv_buffer = store(qkv, c.dtype);
  const uint64_t element = c.dtype == DType::kF16 ? 2 : 4;
  const Operand out = poisoned(size_t{n_rows} * q_width, c.dtype);
  AttentionParams p{};
  p.n_sequences = c.n_sequences;
  p.rows_per_sequence = c.rows;
  p.n_heads = c.n_heads;
  p.n_kv_heads = c.n_kv_heads;
  p.head_dim = c.head_dim;
  p.q_row_stride = p.k_row_stride = p.v_row_stride = width;
  p.out_row_stride = q_width;
  p.scale = scale;
  p.in_dtype = p.out_dtype = static_cast<uint32_t>(c.dtype);
  DispatchTable table;
  emit::attention(table, "attention", p, out, qkv_buffer, qkv_buffer.from(q_width * element),
                  qkv_buffer.from((q_width + kv_width) * element));
  run(table);
  const std::vector<float> found = load(out, c.dtype);
  const double tolerance = c.dtype == DType::kF16 ? 2e-3 : 1e-5;
  std::vector<double> wanted, size;
  for (uint32_t r = 0; r<n_rows; r += c.rows> 100 ? 37 : 1) {
    const uint32_t first = r / c.rows * c.rows;
    for (uint32_t h = 0; h < c.n_heads; ++h) {
      const uint32_t kv = h / (c.n_heads / c.n_kv_heads) * c.head_dim;
      const auto row = [&](uint32_t t) { return &qkv[size_t{first + t} * width]; };
      plain_attention(
          &qkv[size_t{r} * width + h * c.head_dim], c.head_dim, c.rows, p.scale,
          [&](uint32_t t) { return row(t) + q_width + kv; },
          [&](uint32_t t) { return row(t) + q_width + kv_width + kv; }, wanted, size);
      ASSERT_TRUE(is_near(&found[size_t{r} * q_width + h * c.head_dim], wanted, size, tolerance))
          << "row " << r << ", head " << h;
    }
  }
  for (const float value : found) ASSERT_FALSE(std::isnan(value));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(AttentionCase{1, 1500, 2, 2, 64, DType::kF32},
                                         AttentionCase{1, 1500, 2, 2, 64, DType::kF16},
                                         AttentionCase{3, 7, 4, 2, 32, DType::kF32},
                                         AttentionCase{1, 1, 1, 1, 64, DType::kF16},
                                         AttentionCase{2, 65, 3, 1, 64, DType::kF16},
                                         AttentionCase{1, 70, 2, 2, 40, DType::kF32},
                                         AttentionCase{1, 300, 2, 2, 64, DType::kF16, 0.125f},
                                         AttentionCase{1, 300, 2, 2, 64, DType::kF16, 2.0f},
                                         AttentionCase{1, 300, 2, 1, 80, DType::kF16, 2.0f},
                                         AttentionCase{1, 300, 2, 2, 64, DType::kF16, -2.0f}),
                         [](const auto& shape) { return "Case" + std::to_string(shape.index); });

// Through shared memory as on devices whose matrices are spread differently over lanes. Without
// matrix units both are the same kernel.
TEST_F(VulkanTest, AttentionInRegistersEqualsThatThroughSharedMemory) {
  constexpr uint32_t kRows = 200, kHeads = 3, kHeadDim = 64, kWidth = kHeads * kHeadDim;
  std::vector<float> values = random(size_t{kRows} * 3 * kWidth);
  std::vector<uint16_t> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) halves[i] = half_bits(values[i]);
  AttentionParams p{};
  p.n_sequences = 1;
  p.rows_per_sequence = kRows;
  p.n_heads = p.n_kv_heads = kHeads;
  p.head_dim = kHeadDim;
  p.q_row_stride = p.k_row_stride = p.v_row_stride = 3 * kWidth;
  p.out_row_stride = kWidth;
  p.scale = 0.125f;
  p.in_dtype = kDTypeF16;
  p.out_dtype = kDTypeF32;
  const auto attend = [&](Device& device) {
    const Operand qkv = device.allocate(halves.size() * sizeof(uint16_t), "qkv");
    const Operand out = device.allocate(size_t{kRows} * kWidth * sizeof(float), "out");
    device.write(qkv, halves.data());
    DispatchTable table;
    emit::attention(table, "attention", p, out, qkv, qkv.from(kWidth * sizeof(uint16_t)),
                    qkv.from(2 * kWidth * sizeof(uint16_t)));
    device.run(device.record(table));
    std::vector<float> found(size_t{kRows} * kWidth);
    device.read(out, found.data());
    return found;
  };
  const std::vector<float> expected = attend(device());
  const std::string before = std::getenv("VESPER_TUNING");
  setenv("VESPER_TUNING", (before + ",attention_shared=1").c_str(), 1);
  const std::vector<float> found = attend(*open({}));
  setenv("VESPER_TUNING", before.c_str(), 1);
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-3) << i;
}

struct PackedCase {
  std::vector<uint32_t> lengths;
  uint32_t n_heads, n_kv_heads, head_dim;
  DType dtype;
  uint32_t causal, window;
  bool has_bias = false, has_sinks = false;
};

class PackedAttention : public VulkanTest, public testing::WithParamInterface<PackedCase> {};

TEST_P(PackedAttention, SeesOnlyRowsOfTheSameSequence) {
  const PackedCase c = GetParam();
  std::vector<uint32_t> starts = {0};
  for (const uint32_t length : c.lengths) starts.push_back(starts.back() + length);
  const uint32_t n_rows = starts.back() + 3;  // the last three belong to no sequence
  const uint32_t q_width = c.n_heads * c.head_dim, kv_width = c.n_kv_heads * c.head_dim;
  const uint32_t width = q_width + 2 * kv_width;
  std::vector<float> qkv = random(size_t{n_rows} * width);
  const Operand qkv_buffer = store(qkv, c.dtype);
  const uint64_t element = c.dtype == DType::kF16 ? 2 : 4;
  const Operand out = poisoned(size_t{n_rows} * q_width, c.dtype);
  AttentionParams p{};
  p.n_sequences = static_cast<uint32_t>(c.lengths.size());
  p.rows_per_sequence = n_rows;
  p.n_heads = c.n_heads;
  p.n_kv_heads = c.n_kv_heads;
  p.head_dim = c.head_dim;
  p.q_row_stride = p.k_row_stride = p.v_row_stride = width;
  p.out_row_stride = q_width;
  p.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  p.in_dtype = p.out_dtype = static_cast<uint32_t>(c.dtype);
  p.causal = c.causal;
  p.window = c.window;
  p.bias_reach = *std::max_element(c.lengths.begin(), c.lengths.end()) - 1;
  const uint32_t n_bias = 2 * p.bias_reach + 1;
  const std::vector<float> bias = random(size_t{c.n_heads} * n_bias);
  const std::vector<float> sinks = random(c.n_heads, 3.0f);
  DispatchTable table;
  emit::attention(table, "attention", p, out, qkv_buffer, qkv_buffer.from(q_width * element),
                  qkv_buffer.from((q_width + kv_width) * element), store_structs(starts),
                  c.has_bias ? store_structs(bias) : Operand{},
                  c.has_sinks ? store_structs(sinks) : Operand{});
  run(table);
  const std::vector<float> found = load(out, c.dtype);
  const double tolerance = c.dtype == DType::kF16 ? 2e-3 : 1e-5;
  std::vector<double> wanted, size;
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    for (uint32_t r = 0; r < c.lengths[s]; ++r) {
      const uint32_t begin = c.window != 0 && r > c.window ? r - c.window : 0;
      uint32_t end = c.window != 0 ? std::min(c.lengths[s], r + c.window + 1) : c.lengths[s];
      if (c.causal != 0) end = r + 1;
      const size_t at = starts[s] + r;
      for (uint32_t h = 0; h < c.n_heads; ++h) {
        const uint32_t kv = h / (c.n_heads / c.n_kv_heads) * c.head_dim;
        const auto row = [&](uint32_t t) { return &qkv[(starts[s] + begin + t) * width]; };
        const float* of_row = &bias[h * n_bias + p.bias_reach + r - begin];
        plain_attention(
            &qkv[at * width + h * c.head_dim], c.head_dim, end - begin, p.scale,
            [&](uint32_t t) { return row(t) + q_width + kv; },
            [&](uint32_t t) { return row(t) + q_width + kv_width + kv; }, wanted, size, 0,
            [&](uint32_t t) { return c.has_bias ? double{*(of_row - t)} : 0; },
            c.has_sinks ? sinks[h] : -INFINITY);
        ASSERT_TRUE(is_near(&found[at * q_width + h * c.head_dim], wanted, size, tolerance))
            << "sequence " << s << ", row " << r << ", head " << h;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PackedAttention,
    testing::Values(PackedCase{{5, 0, 64, 1, 33, 100, 0}, 3, 3, 32, DType::kF32, 0, 0},
                    PackedCase{{5, 0, 64, 1, 33, 100, 0}, 4, 2, 64, DType::kF16, 0, 0},
                    PackedCase{{1}, 1, 1, 64, DType::kF16, 0, 0},
                    PackedCase{{40, 200, 31, 32}, 2, 2, 64, DType::kF32, 0, 30},
                    PackedCase{{40, 200, 31, 32}, 2, 2, 64, DType::kF16, 0, 70},
                    PackedCase{{40, 130, 31, 32}, 2, 1, 64, DType::kF32, 1, 0},
                    PackedCase{{40, 130, 31, 32}, 2, 1, 64, DType::kF16, 1, 0},
                    PackedCase{{40, 130, 31, 32}, 5, 5, 32, DType::kF32, 0, 0, true},
                    PackedCase{{40, 130, 31, 32}, 4, 4, 64, DType::kF16, 0, 40, true},
                    PackedCase{{40, 130, 31, 32}, 4, 2, 64, DType::kF32, 1, 40, true, true},
                    PackedCase{{40, 130, 31, 32}, 4, 2, 64, DType::kF16, 1, 0, false, true}),
    [](const auto& shape) { return "Case" + std::to_string(shape.index); });

}  // namespace
}  // namespace vesper::attention_test

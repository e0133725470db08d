// Attention of encoders in every format. On CPUs without bf16 products, bf16 is computed in f32.
#include <gtest/gtest.h>

#include "error/error.h"
#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/cpu/encoder_operands.h"

namespace vesper::encoder_attention_test {
namespace {

struct Case {
  AttentionParams params{};
  Buffer q{kDTypeF32, 0}, k{kDTypeF32, 0}, v{kDTypeF32, 0}, out{kDTypeF32, 0};
  std::vector<uint32_t> starts;  // of packed sequences; empty for equal lengths
  std::vector<float> bias;       // [n_heads, 2 * bias_reach + 1]; may be empty
  std::vector<float> sinks;      // [n_heads]; may be empty
  // First row and number of rows of each sequence.
  std::vector<std::pair<size_t, size_t>> sequences() const {
    std::vector<std::pair<size_t, size_t>> found;
    for (size_t s = 0; s < params.n_sequences; ++s) {
      if (starts.empty()) {
        found.emplace_back(s * params.rows_per_sequence, params.rows_per_sequence);
      } else {
        found.emplace_back(starts[s], starts[s + 1] - starts[s]);
      }
    }
    return found;
  }
};

Case random_case(std::mt19937& random, uint32_t n_sequences, uint32_t rows, uint32_t n_kv_heads,
                 uint32_t sharing, uint32_t head_dim, uint32_t in_dtype, uint32_t out_dtype,
                 float spread = 1.0f) {
  Case c;
  AttentionParams& p = c.params;
  p.n_sequences = n_sequences;
  p.rows_per_sequence = rows;
  p.n_kv_heads = n_kv_heads;
  p.n_heads = n_kv_heads * sharing;
  p.head_dim = head_dim;
  p.q_row_stride = p.n_heads * head_dim + random() % 9;
  p.k_row_stride = n_kv_heads * head_dim + random() % 9;
  p.v_row_stride = n_kv_heads * head_dim + random() % 9;
  p.out_row_stride = p.n_heads * head_dim + random() % 9;
  p.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  p.in_dtype = in_dtype;
  p.out_dtype = out_dtype;
  const size_t n_rows = size_t{n_sequences} * rows;
  // Buffers end with the last row, not with its stride.
  c.q = Buffer(in_dtype, (n_rows - 1) * p.q_row_stride + p.n_heads * head_dim);
  c.k = Buffer(in_dtype, (n_rows - 1) * p.k_row_stride + n_kv_heads * head_dim);
  c.v = Buffer(in_dtype, (n_rows - 1) * p.v_row_stride + n_kv_heads * head_dim);
  c.out = Buffer(out_dtype, (n_rows - 1) * p.out_row_stride + p.n_heads * head_dim);
  c.q.fill_random(random, spread);
  c.k.fill_random(random);
  c.v.fill_random(random);
  c.out.fill_nan();
  return c;
}

void run(Case& c, uint32_t n_threads) {
  const auto device = testing::cpu(n_threads);
  const Operand out = testing::store(*device, c.out.bytes);
  const Operand starts = c.starts.empty() ? Operand{} : testing::store(*device, c.starts);
  DispatchTable table;
  emit::attention(table, "test", c.params, out, testing::store(*device, c.q.bytes),
                  testing::store(*device, c.k.bytes), testing::store(*device, c.v.bytes), starts,
                  c.bias.empty() ? Operand{} : testing::store(*device, c.bias),
                  c.sinks.empty() ? Operand{} : testing::store(*device, c.sinks));
  testing::run_once(*device, table);
  c.out.bytes = testing::fetch<uint8_t>(*device, out);
}

void expect_right(const Case& c) {
  const AttentionParams& p = c.params;
  const std::vector<double> q_values = c.q.values(), k_values = c.k.values(),
                            v_values = c.v.values(), out_values = c.out.values();
  // bf16 probabilities have a relative error of 2^-8, plus that of their polynomial.
  const double part = p.in_dtype == kDTypeBF16 ? 1.0 / 256 + 3e-4 : 1e-5;
  double compared = 0.0;
  std::vector<double> probability;
  size_t s = 0;
  for (const auto& [first, n_rows] : c.sequences()) {
    ++s;
    for (size_t h = 0; h < p.n_heads; ++h) {
      for (size_t r = 0; r < n_rows; ++r) {
        const auto sees = [&, n = n_rows](size_t j) {
          return j < n && !(p.causal != 0 && j > r) &&
                 !(p.window != 0 && std::max(j, r) - std::min(j, r) > p.window);
        };
        probability.assign(n_rows, 0.0);
        const size_t q = (first + r) * p.q_row_stride + h * p.head_dim;
        const size_t kv_head = h / (p.n_heads / p.n_kv_heads) * p.head_dim;
        double largest = -1e300, total = 0.0, score_noise = 0.0;  // of scores added in f32
        for (size_t j = 0; j < n_rows; ++j) {
          if (!sees(j)) continue;
          double score = 0.0, magnitude = 0.0;
          for (size_t i = 0; i < p.head_dim; ++i) {
            const double product =
                q_values[q + i] * k_values[(first + j) * p.k_row_stride + kv_head + i];
            score += product;
            magnitude += std::abs(product);
          }
          score_noise = std::max(score_noise, 2e-7 * magnitude * p.scale);
          probability[j] = score * p.scale;
          if (!c.bias.empty()) {
            probability[j] += c.bias[h * (2 * p.bias_reach + 1) + p.bias_reach + r - j];
          }
          largest = std::max(largest, probability[j]);
        }
        for (size_t j = 0; j < n_rows; ++j) {
          if (sees(j)) total += probability[j] = std::exp(probability[j] - largest);
        }
        if (!c.sinks.empty()) total += std::exp(c.sinks[h] - largest);
        for (size_t i = 0; i < p.head_dim; ++i) {
          double sum = 0.0, magnitude = 0.0;
          for (size_t j = 0; j < n_rows; ++j) {
            const double v = v_values[(first + j) * p.v_row_stride + kv_head + i];
            sum += probability[j] / total * v;
            magnitude += probability[j] / total * std::abs(v);
          }
          const double allowed = (part + 2 * score_noise) * magnitude +
                                 rounding_of(p.out_dtype) * std::abs(sum) + 1e-7;
          const size_t at = (first + r) * p.out_row_stride + h * p.head_dim + i;
          ASSERT_LE(std::abs(out_values[at] - sum), allowed)
              << "sequence " << s << ", head " << h << ", row " << r << " of " << n_rows
              << ", dimension " << i << " of " << p.head_dim << ", format " << p.in_dtype << " to "
              << p.out_dtype;
          compared += std::abs(sum);
        }
      }
    }
  }
  EXPECT_GT(compared, 0.0);
}

TEST(EncoderAttention, EqualsAPlainLoopForRandomShapes) {
  std::mt19937 random(21);
  const uint32_t rows[] = {1, 2, 7, 16, 31, 33, 64, 127, 129, 192, 257, 270};
  const uint32_t dims[] = {32, 40, 64, 48, 72, 80, 96, 128, 200, 256};
  for (int i = 0; i < 36; ++i) {
    Case c = random_case(random, 1 + i % 2, rows[i % 12], 1 + random() % 2, 1 + random() % 2,
                         dims[random() % 10], i / 12 % 3, random() % 3);
    run(c, 1 + random() % 4);
    expect_right(c);
    if (HasFatalFailure()) return;
  }
}

TEST(EncoderAttention, HasSinks) {
  std::mt19937 random(26);
  for (uint32_t dtype : {kDTypeF32, kDTypeF16, kDTypeBF16}) {
    Case c = random_case(random, 2, 150, 2, 2, 64, dtype, kDTypeF32);
    c.params.causal = 1;
    c.sinks = {-3.0f, 0.0f, 2.0f, 9.0f};
    run(c, 2);
    expect_right(c);
  }
}

TEST(EncoderAttention, IsExactForDistantScores) {
  std::mt19937 random(22);
  for (uint32_t dtype : {kDTypeF32, kDTypeBF16}) {
    Case c = random_case(random, 1, 400, 1, 1, 64, dtype, kDTypeF32, 40.0f);
    run(c, 2);
    expect_right(c);
  }
}

TEST(EncoderAttention, DoesNotDependOnThreads) {
  std::mt19937 random(23);
  for (uint32_t dtype : {kDTypeF32, kDTypeF16, kDTypeBF16}) {
    Case c = random_case(random, 1, 1000, 3, 1, 64, dtype, dtype);
    run(c, 1);
    const std::vector<uint8_t> one = c.out.bytes;
    for (uint32_t threads : {2u, 7u, 64u}) {
      c.out.fill_nan();
      run(c, threads);
      EXPECT_EQ(one, c.out.bytes) << threads << " threads, format " << dtype;
    }
  }
}

// Random lengths, some of them zero, with rows after the last sequence.
Case packed_case(std::mt19937& random, uint32_t n_sequences, uint32_t longest, uint32_t head_dim,
                 uint32_t dtype) {
  std::vector<uint32_t> starts = {0};
  for (uint32_t s = 0; s < n_sequences; ++s) starts.push_back(starts[s] + random() % (longest + 1));
  Case c = random_case(random, 1, starts.back() + 5, 1, 2, head_dim, dtype, dtype);
  c.params.n_sequences = n_sequences;
  c.starts = std::move(starts);
  return c;
}

TEST(EncoderAttention, EqualsThatOfEachSequenceAlone) {
  std::mt19937 random(26);
  for (uint32_t dtype : {kDTypeF32, kDTypeF16, kDTypeBF16}) {
    for (uint32_t longest : {3u, 40u, 270u}) {
      for (uint32_t threads : {1u, 16u}) {
        Case c = packed_case(random, 5, longest, 32, dtype);
        run(c, threads);
        expect_right(c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(EncoderAttention, UsesWindowsAndCausalMasks) {
  std::mt19937 random(27);
  for (uint32_t dtype : {kDTypeF32, kDTypeBF16}) {
    for (const auto& [causal, window] : {std::pair(0u, 1u), {0u, 64u}, {1u, 0u}, {1u, 20u}}) {
      for (bool packed : {false, true}) {
        Case c = packed ? packed_case(random, 3, 300, 32, dtype)
                        : random_case(random, 2, 290, 1, 1, 32, dtype, dtype);
        c.params.causal = causal;
        c.params.window = window;
        run(c, 3);
        expect_right(c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(EncoderAttention, AddsABiasByDistance) {
  std::mt19937 random(29);
  for (uint32_t dtype : {kDTypeF32, kDTypeF16, kDTypeBF16}) {
    for (const uint32_t n_heads : {1u, 2u, 3u, 4u}) {
      for (const uint32_t window : {0u, 50u}) {
        Case c = random_case(random, 1, 290, n_heads, 1, 32, dtype, dtype);
        c.params.n_sequences = 2;
        c.starts = {0, 250, 290};
        c.params.window = window;
        c.params.bias_reach = 249;
        c.bias = testing::random_numbers(size_t{n_heads} * 499, random());
        run(c, 3);
        expect_right(c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(EncoderAttention, DoesNotDependOnOtherSequences) {
  std::mt19937 random(28);
  for (uint32_t dtype : {kDTypeF32, kDTypeBF16}) {
    for (const auto& [causal, window] : {std::pair(0u, 0u), {0u, 30u}, {1u, 0u}}) {
      // The same rows twice, alone and after 77 others.
      constexpr uint32_t kRows = 1000, kBefore = 77;
      Case behind = random_case(random, 1, kRows + kBefore, 2, 2, 40, dtype, dtype);
      behind.params.causal = causal;
      behind.params.window = window;
      behind.params.n_sequences = 2;
      behind.starts = {0, kBefore, kRows + kBefore};
      Case alone = behind;
      alone.params.n_sequences = 1;
      alone.params.rows_per_sequence = kRows;
      alone.starts = {0, kRows};
      const size_t element = dtype == kDTypeF32 ? 4 : 2;
      const auto cut = [&](Buffer& buffer, uint32_t stride) {
        buffer.bytes.erase(buffer.bytes.begin(),
                           buffer.bytes.begin() + std::ptrdiff_t(kBefore * stride * element));
      };
      cut(alone.q, alone.params.q_row_stride);
      cut(alone.k, alone.params.k_row_stride);
      cut(alone.v, alone.params.v_row_stride);
      cut(alone.out, alone.params.out_row_stride);
      run(alone, 1);
      run(behind, 16);
      cut(behind.out, behind.params.out_row_stride);
      EXPECT_EQ(alone.out.bytes, behind.out.bytes) << "format " << dtype << ", window " << window;
    }
  }
}

TEST(EncoderAttention, WritesNothingBetweenRows) {
  std::mt19937 random(24);
  for (uint32_t dtype : {kDTypeF32, kDTypeBF16}) {
    Case c = random_case(random, 1, 50, 1, 1, 40, dtype, dtype);
    c.params.out_row_stride = 64;
    c.out = Buffer(dtype, 50 * 64);
    c.out.fill_nan();
    run(c, 2);
    for (size_t row = 0; row < 50; ++row) {
      for (size_t i = 0; i < 64; ++i) {
        EXPECT_EQ(std::isnan(c.out.at(row * 64 + i)), i >= 40)
            << "row " << row << ", element " << i;
      }
    }
  }
}

TEST(EncoderAttention, RefusesUnsupportedHeadDimensions) {
  std::mt19937 random(25);
  Case c = random_case(random, 1, 4, 1, 1, 64, kDTypeF32, kDTypeF32);
  for (uint32_t dim : {0u, 33u, 60u}) {
    c.params.head_dim = dim;
    EXPECT_THROW(run(c, 1), Error) << dim;
  }
}

}  // namespace
}  // namespace vesper::encoder_attention_test

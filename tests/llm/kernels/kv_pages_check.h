// Keys and values in quantized pages on a device: written, copied and attended to, compared with
// plain loops in double precision over the same pages.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "llm/dtype/kv_types.h"
#include "llm/dtype/number_conversion.h"
#include "llm/table/device.h"
#include "tests/llm/kernels/kernel_check.h"
#include "tests/llm/kernels/shuffled_pages.h"

namespace vesper::test {

// All formats of keys with all of values, the unquantized among them.
inline std::vector<KvTypes> all_kv_types() {
  std::vector<KvTypes> all;
  for (const DType keys : {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_0}) {
    for (const DType values : {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_0}) {
      all.emplace_back(keys, values);
    }
  }
  return all;
}

// Each quantized format of keys and of values at least once.
inline std::vector<KvTypes> some_kv_types() {
  return {{DType::kQ8_0, DType::kQ4_0}, {DType::kF16, DType::kQ8_0}, {DType::kQ4_0, DType::kF32}};
}

// Rows [n_heads, page_rows, head_dim] and their bytes in pages. NaN rows are kept.
struct PlainKvPages {
  DType dtype;
  size_t page_rows, head_dim;

  size_t row_bytes() const {
    const size_t bits = dtype == DType::kQ4_0   ? 4
                        : dtype == DType::kQ8_0 ? 8
                        : dtype == DType::kF16  ? 16
                                                : 32;
    return head_dim * bits / 8;
  }
  size_t scale_bytes() const {
    return dtype == DType::kQ8_0 || dtype == DType::kQ4_0 ? head_dim / block() * 2 : 0;
  }
  size_t block() const { return dtype == DType::kQ4_0 ? 16 : 32; }
  size_t head_bytes() const { return page_rows * (row_bytes() + scale_bytes()); }

  std::vector<uint8_t> encode(const std::vector<float>& rows) const {
    std::vector<uint8_t> bytes(rows.size() / (page_rows * head_dim) * head_bytes());
    for (size_t row = 0; row < rows.size() / head_dim; ++row) {
      uint8_t *codes = &bytes[code_offset(row)], *scales = codes_to_scales(codes, row);
      for (size_t i = 0; i < head_dim; ++i) {
        const float x = rows[row * head_dim + i];
        if (dtype == DType::kF32) std::memcpy(codes + i * 4, &x, 4);
        const uint16_t half = f32_to_f16(x);
        if (dtype == DType::kF16) std::memcpy(codes + i * 2, &half, 2);
        if (scale_bytes() == 0) continue;
        const uint16_t bits = scale_of(&rows[row * head_dim + i / block() * block()]);
        std::memcpy(scales + i / block() * 2, &bits, 2);
        const double scale = double{f16_to_f32(bits)};
        const double code = std::isnan(scale) || scale == 0 ? 0 : std::nearbyint(x / scale);
        if (dtype == DType::kQ8_0) {
          codes[i] = static_cast<uint8_t>(static_cast<int8_t>(std::clamp(code, -127.0, 127.0)));
        } else {
          const auto nibble = static_cast<uint8_t>(std::clamp(code, -8.0, 7.0) + 8);
          codes[i / 32 * 16 + i % 16] |= static_cast<uint8_t>(i % 32 < 16 ? nibble : nibble << 4);
        }
      }
    }
    return bytes;
  }

  // `scales`: the step between codes of each element, if not null.
  std::vector<float> decode(const std::vector<uint8_t>& bytes,
                            std::vector<float>* steps = nullptr) const {
    std::vector<float> rows(bytes.size() / head_bytes() * page_rows * head_dim);
    if (steps != nullptr) steps->assign(rows.size(), 0);
    for (size_t row = 0; row < rows.size() / head_dim; ++row) {
      const uint8_t *codes = &bytes[code_offset(row)], *scales = codes_to_scales(codes, row);
      for (size_t i = 0; i < head_dim; ++i) {
        float& x = rows[row * head_dim + i];
        uint16_t half;
        if (dtype == DType::kF32) std::memcpy(&x, codes + i * 4, 4);
        if (dtype == DType::kF16) {
          std::memcpy(&half, codes + i * 2, 2);
          x = f16_to_f32(half);
        }
        if (scale_bytes() == 0) continue;
        std::memcpy(&half, scales + i / block() * 2, 2);
        const int pair = codes[i / 32 * 16 + i % 16];
        const int code = dtype == DType::kQ8_0 ? static_cast<int8_t>(codes[i])
                                               : (i % 32 < 16 ? pair & 15 : pair >> 4) - 8;
        x = f16_to_f32(half) * static_cast<float>(code);
        if (steps != nullptr) (*steps)[row * head_dim + i] = std::abs(f16_to_f32(half));
      }
    }
    return rows;
  }

 private:
  size_t code_offset(size_t row) const {
    return row / page_rows * head_bytes() + row % page_rows * row_bytes();
  }
  template <class Byte>
  Byte* codes_to_scales(Byte* codes, size_t row) const {
    return codes + (page_rows - row % page_rows) * row_bytes() + row % page_rows * scale_bytes();
  }
  // 8 bits: the largest magnitude has the code 127 or -127; 4 bits: -8.
  uint16_t scale_of(const float* numbers) const {
    float most = 0;
    for (size_t i = 0; i < block(); ++i) {
      if (std::isnan(numbers[i])) return 0x7e00;
      if (std::abs(numbers[i]) > std::abs(most)) most = numbers[i];
    }
    return f32_to_f16(dtype == DType::kQ8_0 ? std::abs(most) / 127 : most / -8);
  }
};

class KvPagesCheck : private KernelCheck {
 public:
  struct AttentionCase {
    uint32_t n_heads, n_kv_heads, head_dim, page_rows, kv_length, n_rows;
    uint32_t longest = 61, window = 0, flags = 0;  // if kv_length is 0
    DType q = DType::kF32;
    bool has_sinks = false;
  };

  explicit KvPagesCheck(Device& device) : KernelCheck(device, 7) {}

  // By write_kv, and by rope without a rotation.
  void writes_rows(const KvTypes& types, uint32_t head_dim) {
    SCOPED_TRACE(kv_types_text(types) + ", head_dim " + std::to_string(head_dim));
    constexpr uint32_t kSequences = 3, kPageRows = 8, kPages = 2, kHeads = 2, kRows = 15;
    const std::vector<int32_t> pages = shuffled_pages(kSequences * kPages, engine_);
    std::vector<Row> rows(kRows);
    for (uint32_t r = 0; r < kRows; ++r) {
      rows[r] = {0, static_cast<int>(r % kSequences), static_cast<int>(r / kSequences * 3), 0};
    }
    rows[4].sequence = -1;
    // A row of qkv has one query head, keys and values. Blocks have different sizes; one is zero.
    const uint32_t width = kHeads * head_dim, stride = head_dim + 2 * width;
    std::vector<float> qkv = random(size_t{kRows} * stride);
    for (size_t i = 0; i < qkv.size(); ++i) {
      qkv[i] *= std::exp2(static_cast<float>(i / 32 % 9) - 4.0f);
      if (i / 32 % 11 == 3) qkv[i] = 0;
    }
    const size_t n = pages.size() * kHeads * kPageRows * head_dim;
    const PlainKvPages k_plain{types.keys, kPageRows, head_dim};
    const PlainKvPages v_plain{types.values, kPageRows, head_dim};
    const std::vector<float> empty(n, std::numeric_limits<float>::quiet_NaN());
    for (const bool by_rope : {false, true}) {
      const Operand in = store(qkv);
      const Operand k = store(k_plain.encode(empty)), v = store(v_plain.encode(empty));
      DispatchTable table;
      if (by_rope) {
        RopeParams p{};
        p.n_rows = kRows;
        p.n_heads = 1;
        p.n_kv_heads = kHeads;
        p.head_dim = head_dim;
        p.row_stride = stride;
        p.page_rows = kPageRows;
        p.pages_per_sequence = kPages;
        p.kv_dtypes = types.codes();
        emit::rope(table, "rope", p, in, store(rows), {}, {}, {}, k, v, store(pages));
      } else {
        WriteKvParams p{};
        p.n_rows = kRows;
        p.n_kv_heads = kHeads;
        p.head_dim = head_dim;
        p.in_row_stride = stride;
        p.page_rows = kPageRows;
        p.pages_per_sequence = kPages;
        p.kv_dtypes = types.codes();
        emit::write_kv(table, "write", p, k, v, in.from(head_dim * sizeof(float)),
                       in.from((head_dim + width) * sizeof(float)), store(rows), store(pages));
      }
      device_.run(device_.record(table));
      for (const bool are_values : {false, true}) {
        const PlainKvPages& plain = are_values ? v_plain : k_plain;
        std::vector<float> wanted = empty, steps;
        for (uint32_t r = 0; r < kRows; ++r) {
          if (rows[r].sequence < 0) continue;
          for (uint32_t h = 0; h < kHeads; ++h) {
            const size_t from = size_t{r} * stride + head_dim + (are_values ? width : 0);
            std::copy_n(&qkv[from + h * head_dim], head_dim,
                        &wanted[at(pages, kPages, kHeads, kPageRows, rows[r], h) * head_dim]);
          }
        }
        const std::vector<float> best = plain.decode(plain.encode(wanted));
        const std::vector<float> found = plain.decode(fetch<uint8_t>(are_values ? v : k), &steps);
        for (size_t i = 0; i < n; ++i) {
          ASSERT_EQ(std::isnan(found[i]), std::isnan(wanted[i])) << i;  // other rows are kept
          if (std::isnan(wanted[i])) continue;
          // The nearest code, or one of two.
          ASSERT_LE(std::abs(found[i] - wanted[i]),
                    std::abs(best[i] - wanted[i]) + 1e-3f * steps[i])
              << i << ", values " << are_values << ", rope " << by_rope;
        }
      }
    }
  }

  void copies_pages(const KvTypes& types) {
    SCOPED_TRACE(kv_types_text(types));
    constexpr uint32_t kPages = 5, kHeads = 2, kPageRows = 8, kDim = 64, kPage = kHeads * kPageRows;
    const std::vector<float> keys = random(kPages * kPage * kDim);
    const std::vector<float> values = random(kPages * kPage * kDim);
    const PlainKvPages k_plain{types.keys, kPageRows, kDim}, v_plain{types.values, kPageRows, kDim};
    const Operand k = store(k_plain.encode(keys)), v = store(v_plain.encode(values));
    const std::vector<float> k_before = k_plain.decode(fetch<uint8_t>(k));
    const std::vector<float> v_before = v_plain.decode(fetch<uint8_t>(v));
    std::vector<SequenceState> states(3);
    states[0].copy_from = states[1].copy_from = states[2].copy_from = 4;
    states[0].copy_to = 1;
    states[0].copy_rows = 7;
    states[1].copy_to = 2;  // of no rows
    states[2].copy_to = 3;
    states[2].copy_rows = kPageRows;
    DispatchTable table;
    emit::copy_pages(table, "copy", {3, kHeads, kDim, kPageRows, types.codes()}, k, v,
                     store(states));
    device_.run(device_.record(table));
    const std::vector<float> k_found = k_plain.decode(fetch<uint8_t>(k));
    const std::vector<float> v_found = v_plain.decode(fetch<uint8_t>(v));
    for (uint32_t i = 0; i < kPages * kPage * kDim; ++i) {
      const uint32_t page = i / kDim / kPage, row = i / kDim % kPageRows;
      const bool copied = (page == 1 && row < 7) || page == 3;
      const uint32_t from = copied ? 4 * kPage * kDim + i % (kPage * kDim) : i;
      ASSERT_EQ(k_found[i], k_before[from]) << i;
      ASSERT_EQ(v_found[i], v_before[from]) << i;
    }
  }

  void attends(const KvTypes& types, const AttentionCase& c) {
    SCOPED_TRACE(kv_types_text(types) + ", head_dim " + std::to_string(c.head_dim) + ", " +
                 std::to_string(c.n_rows) + " rows, kv_length " + std::to_string(c.kv_length));
    const bool one_sequence = (c.flags & kAttentionOneSequence) != 0;
    const uint32_t n_sequences = one_sequence ? 1 : 3;
    const uint32_t longest = c.kv_length != 0 ? c.kv_length : c.longest;
    const uint32_t per_sequence = (longest + c.page_rows - 1) / c.page_rows;
    const std::vector<int32_t> pages = shuffled_pages(n_sequences * per_sequence, engine_);
    std::vector<Row> rows(c.n_rows);
    for (uint32_t r = 0; r < c.n_rows; ++r) {
      const uint32_t position = one_sequence ? longest - c.n_rows + r : engine_() % longest;
      rows[r] = {0, static_cast<int>(r * n_sequences / c.n_rows), static_cast<int>(position), 0};
    }
    if (c.n_rows > 2 && !one_sequence) rows[1].sequence = -1;
    // Positions that no row sees are NaN.
    const size_t n = pages.size() * c.n_kv_heads * c.page_rows * c.head_dim;
    std::vector<float> keys(n, std::numeric_limits<float>::quiet_NaN()), values = keys;
    for (const Row& row : rows) {
      if (row.sequence < 0) continue;
      const int end = c.kv_length != 0 ? static_cast<int>(c.kv_length) : row.position + 1;
      for (int t = 0; t < end; ++t) {
        for (uint32_t h = 0; h < c.n_kv_heads; ++h) {
          const size_t to = c.head_dim * at(pages, per_sequence, c.n_kv_heads, c.page_rows,
                                            {0, row.sequence, t, 0}, h);
          if (!std::isnan(keys[to])) continue;
          const std::vector<float> numbers = random(2 * c.head_dim, 2.0f);
          std::copy_n(numbers.begin(), c.head_dim, &keys[to]);
          std::copy_n(&numbers[c.head_dim], c.head_dim, &values[to]);
        }
      }
    }
    const PlainKvPages k_plain{types.keys, c.page_rows, c.head_dim};
    const PlainKvPages v_plain{types.values, c.page_rows, c.head_dim};
    const std::vector<uint8_t> k_bytes = k_plain.encode(keys), v_bytes = v_plain.encode(values);
    const uint32_t width = c.n_heads * c.head_dim;
    std::vector<float> q = random(size_t{c.n_rows} * width, 2.0f);
    std::vector<uint16_t> halves(q.size());
    for (size_t i = 0; i < q.size(); ++i) {
      halves[i] = f32_to_f16(q[i]);
      if (c.q == DType::kF16) q[i] = f16_to_f32(halves[i]);
    }
    // The sinks of the first two heads have no weight, and all of it.
    std::vector<float> sinks = random(c.n_heads, 3.0f);
    sinks[0] = -500.0f;
    sinks[1] = 500.0f;
    PagedAttentionParams p{};
    p.n_rows = c.n_rows;
    p.n_heads = c.n_heads;
    p.n_kv_heads = c.n_kv_heads;
    p.head_dim = c.head_dim;
    p.q_row_stride = p.out_row_stride = width;
    p.page_rows = c.page_rows;
    p.pages_per_sequence = per_sequence;
    p.kv_length = c.kv_length;
    p.window = c.window;
    p.flags = c.flags;
    p.scale = 1 / std::sqrt(static_cast<float>(c.head_dim));
    p.q_dtype = static_cast<uint32_t>(c.q);
    p.kv_dtypes = types.codes();
    const Operand out =
        store(std::vector<float>(q.size(), std::numeric_limits<float>::quiet_NaN()));
    DispatchTable table;
    emit::paged_attention(table, "attention", p, out, c.q == DType::kF16 ? store(halves) : store(q),
                          store(k_bytes), store(v_bytes), store(rows), store(pages),
                          c.has_sinks ? store(sinks) : Operand{});
    device_.run(device_.record(table));
    const std::vector<float> found = fetch<float>(out);
    const std::vector<float> k = k_plain.decode(k_bytes), v = v_plain.decode(v_bytes);
    double worst = 0;
    for (uint32_t r = 0; r < c.n_rows; ++r) {
      if (rows[r].sequence < 0) continue;
      const uint32_t end =
          c.kv_length != 0 ? c.kv_length : static_cast<uint32_t>(rows[r].position) + 1;
      const uint32_t begin = c.window != 0 && c.window < end ? end - c.window : 0;
      for (uint32_t h = 0; h < c.n_heads; ++h) {
        const auto row = [&](uint32_t t) {
          return c.head_dim * at(pages, per_sequence, c.n_kv_heads, c.page_rows,
                                 {0, rows[r].sequence, static_cast<int>(t), 0},
                                 h / (c.n_heads / c.n_kv_heads));
        };
        std::vector<double> weights(end);
        double largest = -INFINITY, sum = 0;
        for (uint32_t t = begin; t < end; ++t) {
          for (uint32_t i = 0; i < c.head_dim; ++i) {
            weights[t] +=
                double{q[size_t{r} * width + h * c.head_dim + i]} * k[row(t) + i] * p.scale;
          }
          largest = std::max(largest, weights[t]);
        }
        if (c.has_sinks) largest = std::max(largest, double{sinks[h]});
        for (uint32_t t = begin; t < end; ++t) sum += weights[t] = std::exp(weights[t] - largest);
        if (c.has_sinks) sum += std::exp(sinks[h] - largest);
        for (uint32_t i = 0; i < c.head_dim; ++i) {
          double wanted = 0, size = 1e-3;
          for (uint32_t t = begin; t < end; ++t) {
            wanted += weights[t] / sum * v[row(t) + i];
            size += std::abs(weights[t] / sum * v[row(t) + i]);
          }
          const double error =
              std::abs(found[size_t{r} * width + h * c.head_dim + i] - wanted) / size;
          worst = std::isnan(error) ? INFINITY : std::max(worst, error);
        }
      }
    }
    // Matrix units and bf16 products round their inputs, the CPU queries to int16.
    EXPECT_LE(worst, (c.flags & kAttentionRounds) != 0 ? 2e-2 : c.q == DType::kF16 ? 3e-3 : 5e-5);
  }

  void weighs(DType keys_dtype) {
    constexpr uint32_t kHeads = 3, kDim = 64, kPageRows = 1500, kLength = 1500;
    const std::vector<uint32_t> heads = {2, 0}, lengths = {1490};
    const std::vector<float> keys = random(size_t{kHeads} * kPageRows * kDim),
                             q = random(kHeads * kDim);
    const PlainKvPages plain{keys_dtype, kPageRows, kDim};
    const std::vector<uint8_t> bytes = plain.encode(keys);
    AttentionWeightsParams p{};
    p.n_rows = 1;
    p.n_selected = 2;
    p.n_heads = p.n_kv_heads = kHeads;
    p.head_dim = kDim;
    p.q_row_stride = kHeads * kDim;
    p.page_rows = kPageRows;
    p.pages_per_sequence = 1;
    p.kv_length = kLength;
    p.scale = 0.125f;
    p.k_dtype = static_cast<uint32_t>(keys_dtype);
    const Operand out = store(std::vector<float>(2 * kLength));
    DispatchTable table;
    emit::attention_weights(table, "weights", p, out, store(q), store(bytes),
                            store(std::vector<Row>{{0, 0, 0, 0}}), store(std::vector<int32_t>{0}),
                            store(heads), store(lengths));
    device_.run(device_.record(table));
    const std::vector<float> found = fetch<float>(out), k = plain.decode(bytes);
    for (uint32_t i = 0; i < 2; ++i) {
      std::vector<double> weights(lengths[0]);
      double sum = 0;
      for (uint32_t t = 0; t < lengths[0]; ++t) {
        for (uint32_t d = 0; d < kDim; ++d) {
          weights[t] += double{q[heads[i] * kDim + d]} * 0.125 *
                        k[(size_t{heads[i]} * kPageRows + t) * kDim + d];
        }
        sum += weights[t] = std::exp(weights[t]);
      }
      for (uint32_t t = 0; t < lengths[0]; ++t) {
        ASSERT_NEAR(found[i * kLength + t], weights[t] / sum, 2e-5 * weights[t] / sum + 1e-9) << t;
      }
    }
  }

 private:
  // Index of a row among those of all heads' parts of pages.
  static size_t at(const std::vector<int32_t>& pages, uint32_t per_sequence, uint32_t n_kv_heads,
                   uint32_t page_rows, const Row& row, uint32_t kv_head) {
    const auto position = static_cast<uint32_t>(row.position);
    const auto page = static_cast<size_t>(
        pages[static_cast<uint32_t>(row.sequence) * per_sequence + position / page_rows]);
    return (page * n_kv_heads + kv_head) * page_rows + position % page_rows;
  }
};

// Prompts, steps of several sequences, windows, fixed lengths and long contexts.
inline std::vector<KvPagesCheck::AttentionCase> kv_attention_cases() {
  return {{4, 2, 64, 32, 0, 1},
          {6, 2, 64, 32, 0, 7},
          {4, 1, 32, 8, 0, 5},
          {3, 3, 96, 32, 0, 3},
          {4, 2, 128, 16, 0, 4, 200, 50},
          {2, 2, 64, 32, 448, 3},
          {2, 2, 64, 1500, 1500, 2},
          {6, 2, 32, 32, 0, 2, 3001},
          {4, 2, 64, 32, 0, 40, 401, 37, kAttentionOneSequence},
          {4, 2, 96, 32, 0, 100, 333, 0, kAttentionOneSequence},
          {2, 1, 128, 32, 0, 33, 70, 0, kAttentionOneSequence},
          {2, 2, 256, 32, 0, 17, 70, 0, kAttentionOneSequence},
          {6, 2, 64, 32, 0, 60, 300}};
}

// Attention with sinks: in one page and several, in chunks of positions, prompts of either kind.
inline std::vector<KvPagesCheck::AttentionCase> sink_cases() {
  std::vector<KvPagesCheck::AttentionCase> cases = {
      {4, 2, 64, 32, 0, 1},
      {8, 1, 64, 8, 0, 5, 200, 50},
      {2, 2, 64, 1500, 1500, 2},
      {6, 2, 32, 32, 0, 2, 3001},
      {4, 2, 64, 32, 0, 40, 401, 37, kAttentionOneSequence},
      {4, 2, 96, 32, 0, 100, 333, 0, kAttentionOneSequence},
      {6, 2, 64, 32, 0, 60, 300}};
  for (KvPagesCheck::AttentionCase& c : cases) c.has_sinks = true;
  return cases;
}

}  // namespace vesper::test

// The kernels of language models on a device compared with plain loops in double precision.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "llm/config/rope.h"
#include "llm/dtype/number_conversion.h"
#include "llm/table/device.h"
#include "tests/llm/kernels/kernel_check.h"
#include "tests/llm/kernels/plain_activation.h"

namespace vesper::test {

class LanguageKernelsCheck : private KernelCheck {
 public:
  explicit LanguageKernelsCheck(Device& device) : KernelCheck(device, 20261121) {}

  void rope_without_pages() {
    for (const bool interleaved : {false, true}) {
      for (const uint32_t head_dim : {8u, 64u, 80u}) {
        // Rotates all pairs of a head, some, or none.
        for (const uint32_t n_pairs : {head_dim / 2, head_dim / 8, 0u}) {
          for (const bool with_norms : {false, true}) {
            rope({3, 2, head_dim, n_pairs, interleaved, with_norms, false});
          }
        }
      }
    }
  }

  void rope_into_pages() {
    for (const bool interleaved : {false, true}) {
      for (const uint32_t n_pairs : {32u, 0u}) rope({6, 3, 64, n_pairs, interleaved, true, true});
    }
  }

  void gated_activation() {
    for (const uint32_t activation : kAllActivations) {
      for (const uint32_t d : {1u, 37u, 1536u, 5000u}) {
        const uint32_t n_rows = 5;
        const std::vector<float> in = random(size_t{n_rows} * d * 2, 6.0f);
        const Operand out = poisoned(size_t{n_rows} * d);
        DispatchTable table;
        emit::gated_activation(table, "gate", {n_rows, d, activation, kDTypeF32, kDTypeF32, 0}, out,
                               store(in));
        device_.run(device_.record(table));
        const std::vector<float> found = fetch<float>(out);
        for (uint32_t r = 0; r < n_rows; ++r) {
          for (uint32_t i = 0; i < d; ++i) {
            const double x = in[size_t{r} * 2 * d + i], up = in[size_t{r} * 2 * d + d + i];
            const double wanted = plain_activation(activation, x) * up;
            ASSERT_NEAR(found[size_t{r} * d + i], wanted, 1e-5 + 1e-5 * std::abs(wanted))
                << "activation " << activation << ", " << x;
          }
        }
      }
    }
  }

  void norm_with_residual() {
    const uint32_t n_rows = 7, d = 100;
    const std::vector<float> in = random(n_rows * d), weight = random(d), rest = random(n_rows * d);
    const Operand out = poisoned(n_rows * d), x = store(rest);
    const NormParams params{n_rows, d, 1e-6f, kNormRms, kDTypeF32, kDTypeF32, d};
    DispatchTable table;
    emit::norm(table, "elsewhere", params, out, store(in), store(weight), {}, {}, store(rest));
    emit::norm(table, "in place", params, x, store(in), store(weight), {}, {}, x);
    device_.run(device_.record(table));
    const std::vector<float> found = fetch<float>(out);
    EXPECT_EQ(fetch<float>(x), found);
    for (uint32_t r = 0; r < n_rows; ++r) {
      double squares = 0;
      for (uint32_t i = 0; i < d; ++i) squares += double{in[r * d + i]} * in[r * d + i];
      for (uint32_t i = 0; i < d; ++i) {
        const double wanted =
            rest[r * d + i] + in[r * d + i] / std::sqrt(squares / d + 1e-6) * weight[i];
        ASSERT_NEAR(found[r * d + i], wanted, 1e-5);
      }
    }
  }

  // Parts of wider rows, in place.
  void norm_of_strided_rows(DType dtype) {
    const bool is_f32 = dtype == DType::kF32;
    const auto numbers_of = [&](const Operand& rows) {
      if (is_f32) return fetch<float>(rows);
      std::vector<float> numbers;
      for (const uint16_t half : fetch<uint16_t>(rows)) numbers.push_back(f16_to_f32(half));
      return numbers;
    };
    for (const uint32_t d : {96u, 99u}) {
      const uint32_t n_rows = 7, stride = d + 32, first = 8;
      const std::vector<float> given = random(n_rows * stride), factors = random(d);
      std::vector<uint16_t> halves;
      for (const float x : given) halves.push_back(f32_to_f16(x));
      const Operand rows = is_f32 ? store(given) : store(halves), weight = store(factors);
      const std::vector<float> in = numbers_of(rows);
      const auto kind = static_cast<uint32_t>(dtype);
      const NormParams params{n_rows, d, 1e-6f, kNormRms, kind, kind, stride};
      const Operand part =
          rows.part(dtype_bytes(dtype, first), dtype_bytes(dtype, (n_rows - 1) * stride + d));
      DispatchTable table;
      emit::norm(table, "in place", params, part, part, weight, {}, {});
      device_.run(device_.record(table));
      const std::vector<float> found = numbers_of(rows);
      for (uint32_t r = 0; r < n_rows; ++r) {
        double squares = 0;
        const float* row = &in[r * stride + first];
        for (uint32_t i = 0; i < d; ++i) squares += double{row[i]} * row[i];
        for (uint32_t i = 0; i < d; ++i) {
          const double wanted = row[i] / std::sqrt(squares / d + 1e-6) * factors[i];
          ASSERT_NEAR(found[r * stride + first + i], wanted,
                      is_f32 ? 1e-5 : 1e-3 * (1 + std::abs(wanted)));
        }
        for (uint32_t i = 0; i < stride; ++i) {
          if (i >= first && i < first + d) continue;
          ASSERT_EQ(found[r * stride + i], in[r * stride + i]) << i;
        }
      }
    }
  }

  void soft_cap() {
    const std::vector<float> in = random(1000, 300.0f);
    const Operand out = poisoned(1000);
    DispatchTable table;
    emit::activation(table, "cap", {1000, kActivationSoftCap, 30.0f}, out, store(in));
    device_.run(device_.record(table));
    const std::vector<float> found = fetch<float>(out);
    for (size_t i = 0; i < in.size(); ++i) {
      ASSERT_NEAR(found[i], 30 * std::tanh(in[i] / 30.0), 1e-4) << in[i];
    }
  }

  // Rows see the last `window` positions of their sequence, without NaN. Earlier positions are NaN.
  void attention_with_window(uint32_t n_rows, uint32_t window, float soft_cap,
                             bool has_sinks = false) {
    SCOPED_TRACE(std::to_string(n_rows) + " rows, window " + std::to_string(window) + ", cap " +
                 std::to_string(soft_cap) + ", sinks " + std::to_string(has_sinks));
    const uint32_t n_heads = 4, n_kv_heads = 2, dim = 32, page_rows = 8;
    const uint32_t n_pages = ((50 + n_rows) / page_rows + 1) | 1;  // odd
    const uint32_t width = n_heads * dim, kv = n_kv_heads * dim;
    std::vector<Row> rows(n_rows);
    for (uint32_t r = 0; r < n_rows; ++r) {
      rows[r] = {0, r == 5 ? -1 : 0, static_cast<int>(r < n_rows - 1 ? 50 + r : 3), 0};
    }
    std::vector<int32_t> pages(n_pages);
    for (uint32_t i = 0; i < n_pages; ++i) pages[i] = static_cast<int32_t>((i * 4 + 3) % n_pages);
    const size_t n = size_t{n_pages} * page_rows * kv;
    const auto at = [&](uint32_t position, uint32_t head) {
      return ((static_cast<size_t>(pages[position / page_rows]) * n_kv_heads + head) * page_rows +
              position % page_rows) *
             dim;
    };
    std::vector<float> k = random(n, 2.0f), v = random(n);
    const std::vector<float> q = random(size_t{n_rows} * width, 2.0f);
    // With a window, nothing reads positions between those of the last row and the others.
    for (uint32_t t = 4; window != 0 && t + window <= 50; ++t) {
      for (uint32_t h = 0; h < n_kv_heads; ++h) {
        std::fill_n(&k[at(t, h)], dim, NAN);
        std::fill_n(&v[at(t, h)], dim, NAN);
      }
    }
    const std::vector<float> sinks = random(n_heads, 3.0f);
    PagedAttentionParams p{};
    p.n_rows = n_rows;
    p.n_heads = n_heads;
    p.n_kv_heads = n_kv_heads;
    p.head_dim = dim;
    p.q_row_stride = p.out_row_stride = width;
    p.page_rows = page_rows;
    p.pages_per_sequence = n_pages;
    p.scale = 0.3f;
    p.window = window;
    p.soft_cap = soft_cap;
    const Operand out = poisoned(size_t{n_rows} * width);
    DispatchTable table;
    emit::paged_attention(table, "attention", p, out, store(q), store(k), store(v), store(rows),
                          store(pages), has_sinks ? store(sinks) : Operand{});
    device_.run(device_.record(table));
    const std::vector<float> found = fetch<float>(out);
    for (uint32_t r = 0; r < n_rows; ++r) {
      if (rows[r].sequence < 0) continue;
      const auto end = static_cast<uint32_t>(rows[r].position) + 1;
      const uint32_t begin = window != 0 && window < end ? end - window : 0;
      for (uint32_t h = 0; h < n_heads; ++h) {
        std::vector<double> weights(end);
        double largest = -INFINITY, sum = 0;
        for (uint32_t t = begin; t < end; ++t) {
          for (uint32_t i = 0; i < dim; ++i) {
            weights[t] += double{q[r * width + h * dim + i]} * k[at(t, h / 2) + i] * p.scale;
          }
          if (soft_cap > 0) weights[t] = soft_cap * std::tanh(weights[t] / soft_cap);
          largest = std::max(largest, weights[t]);
        }
        for (uint32_t t = begin; t < end; ++t) sum += weights[t] = std::exp(weights[t] - largest);
        if (has_sinks) sum += std::exp(sinks[h] - largest);
        for (uint32_t i = 0; i < dim; ++i) {
          double wanted = 0;
          for (uint32_t t = begin; t < end; ++t) wanted += weights[t] / sum * v[at(t, h / 2) + i];
          ASSERT_NEAR(found[r * width + h * dim + i], wanted, 3e-5) << "row " << r;
        }
      }
    }
  }

 private:
  struct RopeCase {
    uint32_t n_heads, n_kv_heads, head_dim, n_pairs;
    bool interleaved, with_norms, with_pages;
  };

  void rope(const RopeCase& c) {
    SCOPED_TRACE("head_dim " + std::to_string(c.head_dim) + ", " + std::to_string(c.n_pairs) +
                 " pairs, interleaved " + std::to_string(c.interleaved));
    const uint32_t n_rows = 9, n_positions = 40, page_rows = 8, per_sequence = 5, n_sequences = 2;
    const uint32_t n_heads = c.n_heads + 2 * c.n_kv_heads;
    const uint32_t stride = n_heads * c.head_dim + 8;
    const std::vector<float> in = random(size_t{n_rows} * stride);
    const std::vector<float> q_norm_weight = random(c.head_dim), k_norm_weight = random(c.head_dim);
    RopeSettings settings;
    settings.n_pairs = c.n_pairs;
    const std::vector<float> angles = rope_angles(settings, n_positions);
    std::vector<Row> rows(n_rows);
    for (uint32_t r = 0; r < n_rows; ++r) {
      rows[r] = {0, r == 4 ? -1 : static_cast<int>(r % n_sequences), static_cast<int>(r * 4 + 1),
                 0};
    }
    std::vector<int32_t> pages(n_sequences * per_sequence);
    for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int32_t>(pages.size() - 1 - i);
    const size_t n_page = pages.size() * c.n_kv_heads * page_rows * c.head_dim;
    const Operand qkv = store(in), k_pages = poisoned(n_page), v_pages = poisoned(n_page);
    RopeParams p{};
    p.n_rows = n_rows;
    p.n_heads = c.n_heads;
    p.n_kv_heads = c.n_kv_heads;
    p.head_dim = c.head_dim;
    p.row_stride = stride;
    p.n_pairs = c.n_pairs;
    p.interleaved = c.interleaved;
    p.norm_epsilon = 1e-5f;
    p.page_rows = page_rows;
    p.pages_per_sequence = per_sequence;
    DispatchTable table;
    emit::rope(table, "rope", p, qkv, store(rows), c.n_pairs > 0 ? store(angles) : Operand{},
               c.with_norms ? store(q_norm_weight) : Operand{},
               c.with_norms ? store(k_norm_weight) : Operand{}, c.with_pages ? k_pages : Operand{},
               c.with_pages ? v_pages : Operand{}, c.with_pages ? store(pages) : Operand{});
    device_.run(device_.record(table));
    const std::vector<float> found = fetch<float>(qkv);
    const std::vector<float> keys = fetch<float>(k_pages), values = fetch<float>(v_pages);
    std::vector<bool> written(n_page);
    for (uint32_t r = 0; r < n_rows; ++r) {
      for (uint32_t h = 0; h < n_heads; ++h) {
        const float* head = &in[r * stride + h * c.head_dim];
        std::vector<double> wanted(head, head + c.head_dim);
        const bool is_value = h >= c.n_heads + c.n_kv_heads, is_query = h < c.n_heads;
        const bool is_idle = rows[r].sequence < 0;
        if (!is_value && !is_idle) {
          if (c.with_norms) norm_head(wanted, is_query ? q_norm_weight : k_norm_weight);
          turn(wanted, c, rows[r].position);
        }
        const bool to_pages = c.with_pages && !is_query && !is_idle;
        size_t at = 0;
        if (to_pages) {
          const auto position = static_cast<uint32_t>(rows[r].position);
          const auto page = static_cast<size_t>(
              pages[static_cast<uint32_t>(rows[r].sequence) * per_sequence + position / page_rows]);
          at = ((page * c.n_kv_heads + (h - c.n_heads) % c.n_kv_heads) * page_rows +
                position % page_rows) *
               c.head_dim;
        }
        for (uint32_t i = 0; i < c.head_dim; ++i) {
          if (to_pages) written[at + i] = true;
          const float value = to_pages ? (is_value ? values : keys)[at + i]
                                       : found[r * stride + h * c.head_dim + i];
          ASSERT_NEAR(value, wanted[i], 1e-5) << "row " << r << ", head " << h << ", " << i;
        }
      }
      for (uint32_t i = n_heads * c.head_dim; i < stride; ++i) {
        ASSERT_EQ(found[r * stride + i], in[r * stride + i]);  // after the heads
      }
    }
    for (size_t i = 0; i < n_page; ++i) {
      ASSERT_EQ(std::isnan(keys[i]), !written[i]) << i;
      ASSERT_EQ(std::isnan(values[i]), !written[i]) << i;
    }
  }

  static void norm_head(std::vector<double>& head, const std::vector<float>& weight) {
    double squares = 0;
    for (const double x : head) squares += x * x;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(head.size()) + 1e-5);
    for (size_t i = 0; i < head.size(); ++i) head[i] *= factor * weight[i];
  }

  static void turn(std::vector<double>& head, const RopeCase& c, int position) {
    for (uint32_t i = 0; i < c.n_pairs; ++i) {
      const double angle = position * std::pow(10000.0, -double{1} * i / c.n_pairs);
      double& x = head[c.interleaved ? 2 * i : i];
      double& y = head[c.interleaved ? 2 * i + 1 : i + c.n_pairs];
      const double before = x;
      x = x * std::cos(angle) - y * std::sin(angle);
      y = before * std::sin(angle) + y * std::cos(angle);
    }
  }
};

}  // namespace vesper::test

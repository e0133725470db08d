// The kernels of mixtures of experts on a device compared with plain loops in double precision.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "llm/table/device.h"
#include "tests/llm/kernels/kernel_check.h"
#include "tests/llm/kernels/quantized_matrix.h"

namespace vesper::test {

class ExpertsCheck : private KernelCheck {
 public:
  explicit ExpertsCheck(Device& device) : KernelCheck(device, 20261124) {}

  void routes_to_the_highest_logits() {
    for (const auto& [n_experts, n_used] :
         {std::pair{4u, 2u}, {8u, 1u}, {8u, 8u}, {60u, 4u}, {128u, 8u}, {512u, 32u}}) {
      for (const auto& [normalizes, has_shared] : {std::pair{0u, 0u}, {1u, 0u}, {0u, 1u}}) {
        const uint32_t n_rows = 5, width = n_experts + has_shared, n_weights = n_used + has_shared;
        std::vector<float> logits = random(size_t{n_rows} * width, 4.0f);
        logits[width + 1] = logits[width + 3] = 9;  // a tie
        for (uint32_t e = 0; e < n_experts; ++e) logits[4 * width + e] = NAN;
        const Operand ids = store(std::vector<uint32_t>(n_rows * n_used, 7777));
        const Operand weights = store(std::vector<float>(n_rows * n_weights, NAN));
        DispatchTable table;
        emit::route_experts(table, "route", {n_rows, n_experts, n_used, normalizes, has_shared},
                            ids, weights, store(logits));
        device_.run(device_.record(table));
        const auto found = fetch<uint32_t>(ids);
        const auto found_weights = fetch<float>(weights);
        for (uint32_t r = 0; r < n_rows; ++r) {
          const uint32_t* of_row = &found[r * n_used];
          // Of a row without numbers only: different experts that exist.
          EXPECT_EQ(std::set<uint32_t>(of_row, of_row + n_used).size(), n_used);
          EXPECT_LT(*std::max_element(of_row, of_row + n_used), n_experts);
          if (r == 4) continue;
          const float* row = &logits[size_t{r} * width];
          std::vector<uint32_t> order(n_experts);
          std::iota(order.begin(), order.end(), 0);
          std::stable_sort(order.begin(), order.end(),
                           [&](uint32_t a, uint32_t b) { return row[a] > row[b]; });
          double sum = 0;
          for (uint32_t i = 0; i < (normalizes ? n_used : n_experts); ++i) {
            sum += std::exp(double{row[order[i]]});
          }
          for (uint32_t c = 0; c < n_used; ++c) {
            ASSERT_EQ(of_row[c], order[c]) << n_experts << " experts, row " << r;
            EXPECT_NEAR(found_weights[r * n_weights + c], std::exp(double{row[order[c]]}) / sum,
                        2e-6);
          }
          if (has_shared == 0) continue;
          EXPECT_NEAR(found_weights[r * n_weights + n_used],
                      1 / (1 + std::exp(-double{row[n_experts]})), 2e-6);
        }
      }
    }
  }

  // Every used slot is in one tile of its expert, and the other tiles are empty.
  void groups_slots_by_expert() {
    const uint32_t n_rows = 90, n_used = 3, n_experts = 5, n_slots = n_rows * n_used;
    std::vector<uint32_t> ids(n_slots);
    // Expert 4 has no slots, expert 1 more than two tiles.
    for (uint32_t& id : ids) id = engine_() % 2 == 0 ? 1 : engine_() % 4;
    std::vector<Row> rows(n_rows);
    for (uint32_t r = 0; r < n_rows; ++r) rows[r] = {0, r % 7 == 6 ? -1 : 0, 0, 0};
    for (const bool with_rows : {false, true}) {
      const uint32_t n_tiles = most_expert_tiles(n_slots, n_experts);
      const Operand groups = poisoned_groups(n_slots, n_tiles);
      DispatchTable table;
      emit::group_experts(table, "group", {n_slots, n_used, n_experts, n_tiles}, groups, store(ids),
                          with_rows ? store(rows) : Operand{});
      device_.run(device_.record(table));
      const auto found = fetch<uint32_t>(groups);
      std::multiset<uint32_t> slots, expected;
      for (uint32_t s = 0; s < n_slots; ++s) {
        if (!with_rows || rows[s / n_used].sequence >= 0) expected.insert(s);
      }
      for (uint32_t t = 0; t < n_tiles; ++t) {
        const uint32_t* tile = &found[n_slots + 3 * t];
        ASSERT_LE(tile[2], kExpertTileRows);
        for (uint32_t i = 0; i < tile[2]; ++i) {
          const uint32_t slot = found[tile[1] + i];
          ASSERT_LT(slot, n_slots);
          EXPECT_EQ(ids[slot], tile[0]);
          slots.insert(slot);
        }
      }
      EXPECT_EQ(slots, expected);
    }
  }

  // `tolerance` is relative to the sum of the products' magnitudes.
  void multiplies(Compute compute, DType dtype, uint32_t n_rows, bool grouped, bool in_per_slot,
                  double tolerance) {
    const uint32_t n_used = 3, n_experts = 5, n_out = 48, n_slots = n_rows * n_used;
    const bool quantized = dtype_descriptor(dtype).unpack != nullptr;
    const uint32_t n_in = quantized ? 256 : 72;
    SCOPED_TRACE(std::string(dtype_descriptor(dtype).name) + ", compute " +
                 std::string(compute_name(compute)) + ", " + std::to_string(n_rows) + " rows" +
                 (grouped ? ", grouped" : "") + (in_per_slot ? ", a row per slot" : ""));
    Matrix matrix = make_matrix(dtype, n_experts * n_out, n_in);
    const Weight weight = device_.upload(matrix.source, WeightUse::kAnyRows, compute);
    const std::vector<float> in = random(size_t{in_per_slot ? n_slots : n_rows} * n_in);
    const std::vector<float> bias = random(size_t{n_experts} * n_out);
    std::vector<uint32_t> ids(n_slots);
    for (uint32_t s = 0; s < n_slots; ++s) ids[s] = s < n_used ? s + 2 : engine_() % n_experts;
    std::vector<Row> rows(n_rows);
    for (uint32_t r = 0; r < n_rows; ++r) rows[r] = {0, r % 5 == 3 ? -1 : 0, 0, 0};
    const Operand out = store(std::vector<float>(size_t{n_slots} * n_out, NAN));
    const Operand stored_ids = store(ids), stored_rows = store(rows);
    ExpertMatmulParams params{};
    params.n_slots = n_slots;
    params.n_used = n_used;
    params.n_experts = n_experts;
    params.n_out = n_out;
    params.n_in = n_in;
    params.in_per_slot = in_per_slot;
    params.weight_format = weight.format;
    params.n_tiles = grouped ? most_expert_tiles(n_slots, n_experts) : 0;
    DispatchTable table;
    Operand groups;
    if (grouped) {
      groups = poisoned_groups(n_slots, params.n_tiles);
      emit::group_experts(table, "group", {n_slots, n_used, n_experts, params.n_tiles}, groups,
                          stored_ids, stored_rows);
    }
    emit::expert_matmul(table, "experts", params, out, store(in), weight.data, store(bias),
                        weight.scale, stored_ids, stored_rows, groups);
    device_.run(device_.record(table));
    const auto found = fetch<float>(out);
    for (uint32_t s = 0; s < n_slots; ++s) {
      if (rows[s / n_used].sequence < 0) continue;
      const float* row = &in[size_t{in_per_slot ? s : s / n_used} * n_in];
      for (uint32_t o = 0; o < n_out; ++o) {
        const size_t output = size_t{ids[s]} * n_out + o;
        double sum = bias[output], size = std::abs(sum);
        for (uint32_t i = 0; i < n_in; ++i) {
          const double one = double{row[i]} * matrix.numbers[output * n_in + i];
          sum += one;
          size += std::abs(one);
        }
        ASSERT_NEAR(found[size_t{s} * n_out + o], sum, tolerance * size) << s << ", " << o;
      }
    }
  }

  void combines() {
    for (const auto& [d, has_shared] :
         {std::pair{1u, false}, {37u, true}, {2500u, false}, {2500u, true}}) {
      const uint32_t n_rows = 4, n_used = 3, n_weights = n_used + has_shared;
      const std::vector<float> before = random(size_t{n_rows} * d),
                               in = random(size_t{n_rows} * n_used * d),
                               shared = random(size_t{n_rows} * d),
                               weights = random(size_t{n_rows} * n_weights);
      const Operand x = store(before);
      DispatchTable table;
      emit::combine_experts(table, "combine", {n_rows, n_used, d}, x, store(in), store(weights),
                            has_shared ? store(shared) : Operand{});
      device_.run(device_.record(table));
      const auto found = fetch<float>(x);
      for (uint32_t r = 0; r < n_rows; ++r) {
        for (uint32_t i = 0; i < d; ++i) {
          double sum = before[size_t{r} * d + i];
          for (uint32_t c = 0; c < n_used; ++c) {
            sum += double{weights[r * n_weights + c]} * in[size_t{r * n_used + c} * d + i];
          }
          if (has_shared) {
            sum += double{weights[r * n_weights + n_used]} * shared[size_t{r} * d + i];
          }
          ASSERT_NEAR(found[size_t{r} * d + i], sum, 1e-6);
        }
      }
    }
  }

  void clamped_swiglu() {
    const uint32_t n_rows = 3, d = 3001;
    const std::vector<float> in = random(size_t{n_rows} * d * 2, 12.0f);
    const Operand out = store(std::vector<float>(size_t{n_rows} * d, NAN));
    DispatchTable table;
    emit::gated_activation(table, "gate",
                           {n_rows, d, kActivationClampedSwiGlu, kDTypeF32, kDTypeF32, 7.0f}, out,
                           store(in));
    device_.run(device_.record(table));
    const auto found = fetch<float>(out);
    for (uint32_t r = 0; r < n_rows; ++r) {
      for (uint32_t i = 0; i < d; ++i) {
        const float* row = &in[size_t{r} * 2 * d];
        const double gate = std::min(7.0, double{row[i]});
        const double up = std::clamp(double{row[d + i]}, -7.0, 7.0);
        const double expected = gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
        ASSERT_NEAR(found[size_t{r} * d + i], expected, 2e-5 + 1e-5 * std::abs(expected));
      }
    }
  }

 private:
  struct Matrix {
    std::unique_ptr<QuantizedMatrix> quantized;
    TensorView view;
    std::vector<float> numbers;
    MatrixSource source;
  };
  Matrix make_matrix(DType dtype, uint32_t n_out, uint32_t n_in) {
    Matrix matrix;
    if (dtype != DType::kF32) {
      matrix.quantized = std::make_unique<QuantizedMatrix>(QuantizedFormat{dtype}, n_out, n_in, 5);
      matrix.numbers = matrix.quantized->numbers;
      matrix.source = matrix.quantized->source();
      return matrix;
    }
    matrix.numbers = random(size_t{n_out} * n_in);
    views_.push_back(std::make_unique<TensorView>());
    TensorView& view = *views_.back();
    view.name = view.file_name = "test.weight";
    view.shape = {n_out, n_in};
    view.data = matrix.numbers.data();
    view.bytes = matrix.numbers.size() * sizeof(float);
    matrix.source = {{&view}};
    return matrix;
  }
  Operand poisoned_groups(uint32_t n_slots, uint32_t n_tiles) {
    return store(std::vector<uint32_t>(n_slots + 3 * n_tiles, 0xffffffffu));
  }

  std::vector<std::unique_ptr<TensorView>> views_;
};

}  // namespace vesper::test

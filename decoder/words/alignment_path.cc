#include "decoder/words/alignment_path.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace vesper {
namespace {

// Half the width of the median filter.
constexpr uint32_t kReach = 3;

// The median of in[i .. i + 6] for each i < n: a network of 13 exchanges that puts it into v3
// (Devillard, "Fast median search", 1998). The compiler vectorizes the loop, because the values are
// separate variables.
void medians_of_7(const float* in, size_t n, float* out) {
  const auto exchange = [](float& a, float& b) {
    const float low = std::min(a, b);
    b = std::max(a, b);
    a = low;
  };
  for (size_t i = 0; i < n; ++i) {
    float v0 = in[i], v1 = in[i + 1], v2 = in[i + 2], v3 = in[i + 3];
    float v4 = in[i + 4], v5 = in[i + 5], v6 = in[i + 6];
    exchange(v0, v5), exchange(v0, v3), exchange(v1, v6), exchange(v2, v4);
    exchange(v0, v1), exchange(v3, v5), exchange(v2, v6), exchange(v2, v3);
    exchange(v3, v6), exchange(v4, v5), exchange(v1, v4), exchange(v1, v3);
    exchange(v3, v4);
    out[i] = v3;
  }
}

}  // namespace

void standardize_over_rows(const HeadWeights& weights) {
  const uint32_t n = weights.n_positions;
  std::vector<float> mean(n), factor(n);
  for (uint32_t h = 0; h < weights.n_heads; ++h) {
    const auto row = [&](uint32_t r) {
      return weights.data + h * weights.head_stride + r * weights.row_stride;
    };
    std::fill(mean.begin(), mean.end(), 0.0f);
    std::fill(factor.begin(), factor.end(), 0.0f);
    for (uint32_t r = 0; r < weights.n_rows; ++r) {
      const float* x = row(r);
      for (uint32_t t = 0; t < n; ++t) mean[t] += x[t];
    }
    const float n_rows = static_cast<float>(weights.n_rows);
    for (float& m : mean) m /= n_rows;
    for (uint32_t r = 0; r < weights.n_rows; ++r) {
      const float* x = row(r);
      for (uint32_t t = 0; t < n; ++t) factor[t] += (x[t] - mean[t]) * (x[t] - mean[t]);
    }
    for (float& f : factor) f = f > 0 ? 1 / std::sqrt(f / n_rows) : 0.0f;
    for (uint32_t r = 0; r < weights.n_rows; ++r) {
      float* x = row(r);
      for (uint32_t t = 0; t < n; ++t) x[t] = (x[t] - mean[t]) * factor[t];
    }
  }
}

void median_filter_7(std::span<const float> in, float* out) {
  const size_t n = in.size();
  if (n <= kReach) {
    std::copy(in.begin(), in.end(), out);
    return;
  }
  medians_of_7(in.data(), n > 2 * kReach ? n - 2 * kReach : 0, out + kReach);
  const auto at_edge = [&](size_t i) {
    std::array<float, 2 * kReach + 1> near{};
    for (size_t j = 0; j < near.size(); ++j) {
      // The edge is not repeated.
      auto index = static_cast<std::ptrdiff_t>(i + j) - static_cast<std::ptrdiff_t>(kReach);
      const auto last = static_cast<std::ptrdiff_t>(n) - 1;
      if (index < 0) index = -index;
      if (index > last) index = 2 * last - index;
      near[j] = in[static_cast<size_t>(index)];
    }
    std::sort(near.begin(), near.end());
    out[i] = near[kReach];
  };
  for (size_t i = 0; i < n; ++i) {
    if (i == kReach && n > 2 * kReach) i = n - kReach;
    at_edge(i);
  }
}

std::vector<uint32_t> first_positions(std::span<const float> matrix, uint32_t n_rows,
                                      uint32_t n_positions) {
  // The cost of the best path to each row, at the previous and at this position. Sums are rounded
  // to f32 at every step like the reference's, because the choice of a path may depend on it.
  constexpr float kNever = std::numeric_limits<float>::infinity();
  std::vector<float> before(n_rows + 1, kNever), here(n_rows + 1, kNever);
  before[0] = 0;
  enum Step : uint8_t { kBoth, kRow, kPosition };
  std::vector<Step> steps(size_t{n_rows} * n_positions);
  for (uint32_t t = 0; t < n_positions; ++t) {
    here[0] = kNever;
    Step* const step = steps.data() + size_t{t} * n_rows;
    for (uint32_t r = 0; r < n_rows; ++r) {
      const float both = before[r], row = here[r], position = before[r + 1];
      float cost = position;
      step[r] = kPosition;
      if (both < row && both < position) {
        cost = both;
        step[r] = kBoth;
      } else if (row < both && row < position) {
        cost = row;
        step[r] = kRow;
      }
      here[r + 1] = static_cast<float>(double{cost} - double{matrix[size_t{r} * n_positions + t]});
    }
    std::swap(before, here);
  }
  std::vector<uint32_t> first(n_rows, 0);
  for (uint32_t r = n_rows - 1, t = n_positions - 1;;) {
    first[r] = t;
    if (r == 0) break;  // the first row starts at position 0
    const Step step = t == 0 ? kRow : steps[size_t{t} * n_rows + r];
    if (step != kPosition) --r;
    if (step != kRow) --t;
  }
  first[0] = 0;
  return first;
}

std::vector<uint32_t> align_rows(const HeadWeights& weights, uint32_t first_row, uint32_t n_rows) {
  standardize_over_rows(weights);
  const uint32_t n = weights.n_positions;
  std::vector<float> matrix(size_t{n_rows} * n, 0.0f), filtered(n);
  for (uint32_t h = 0; h < weights.n_heads; ++h) {
    for (uint32_t r = 0; r < n_rows; ++r) {
      const float* row =
          weights.data + h * weights.head_stride + (first_row + r) * weights.row_stride;
      median_filter_7({row, n}, filtered.data());
      float* sum = matrix.data() + size_t{r} * n;
      for (uint32_t t = 0; t < n; ++t) sum[t] += filtered[t];
    }
  }
  for (float& x : matrix) x /= static_cast<float>(weights.n_heads);
  return first_positions(matrix, n_rows, n);
}

}  // namespace vesper

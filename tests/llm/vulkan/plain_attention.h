// Attention of one query in double precision, for tests of kernels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace vesper {

// softmax(q . k * scale) . v over `n` positions, and the sum of |weight * value|. q [head_dim];
// key(t) and value(t) point to head_dim elements; bias(t) is added to a score.
template <class Key, class Value>
void plain_attention(
    const float* q, uint32_t head_dim, uint32_t n, double scale, Key key, Value value,
    std::vector<double>& out, std::vector<double>& size, double soft_cap = 0,
    const std::function<double(uint32_t)>& bias = [](uint32_t) { return 0.0; },
    double sink = -INFINITY) {
  std::vector<double> scores(n);
  double greatest = -1e300, total = 0;
  for (uint32_t t = 0; t < n; ++t) {
    double score = 0;
    for (uint32_t d = 0; d < head_dim; ++d) score += double{q[d]} * key(t)[d];
    scores[t] = score * scale;
    if (soft_cap > 0) scores[t] = soft_cap * std::tanh(scores[t] / soft_cap);
    scores[t] += bias(t);
    greatest = std::max(greatest, scores[t]);
  }
  for (double& score : scores) total += score = std::exp(score - greatest);
  total += std::exp(sink - greatest);
  out.assign(head_dim, 0);
  size.assign(head_dim, 0);
  for (uint32_t t = 0; t < n; ++t) {
    for (uint32_t d = 0; d < head_dim; ++d) {
      out[d] += scores[t] / total * value(t)[d];
      size[d] += scores[t] / total * std::abs(value(t)[d]);
    }
  }
}

// Whether `found`, which has as many elements as `wanted`, differs from it by at most `tolerance`
// times `size`.
inline testing::AssertionResult is_near(const float* found, const std::vector<double>& wanted,
                                        const std::vector<double>& size, double tolerance) {
  for (size_t d = 0; d < wanted.size(); ++d) {
    const double most = tolerance * size[d] + 1e-7;
    if (std::abs(found[d] - wanted[d]) <= most) continue;  // false for NaN
    return testing::AssertionFailure() << "dimension " << d << ": found " << found[d]
                                       << ", expected " << wanted[d] << " within " << most;
  }
  return testing::AssertionSuccess();
}

}  // namespace vesper

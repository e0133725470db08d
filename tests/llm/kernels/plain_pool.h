// Pooling in double precision, for comparison with the kernels of both devices.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "shaders/kernel_params.h"

namespace vesper {

// [starts.size() - 1, n_out] from rows of d elements.
inline std::vector<double> plain_pool(const std::vector<float>& rows,
                                      const std::vector<uint32_t>& starts, uint32_t d,
                                      uint32_t n_out, uint32_t kind, bool normalize) {
  std::vector<double> out;
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    std::vector<double> vector(n_out, 0.0);
    double squares = 0.0;
    const uint32_t n = starts[s + 1] - starts[s];
    for (uint32_t i = 0; n != 0 && i < n_out; ++i) {
      const auto at = [&](uint32_t r) { return double{rows[size_t{starts[s] + r} * d + i]}; };
      if (kind == kPoolFirst) vector[i] = at(0);
      if (kind == kPoolLast) vector[i] = at(n - 1);
      if (kind == kPoolMean) {
        for (uint32_t r = 0; r < n; ++r) vector[i] += at(r) / n;
      }
      squares += vector[i] * vector[i];
    }
    for (const double value : vector) {
      out.push_back(normalize && squares > 0 ? value / std::sqrt(squares) : value);
    }
  }
  return out;
}

}  // namespace vesper

// An LSTM in double precision, for comparison with the devices' lstm.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shaders/kernel_params.h"

namespace vesper {

class PlainLstm {
 public:
  // `weight` [4 * n_hidden, n_hidden], outputs i, f, g, o.
  PlainLstm(size_t n_hidden, std::vector<float> weight)
      : n_hidden_(n_hidden), weight_(std::move(weight)) {}

  // The weight in the layout of the kernel.
  std::vector<float> panels() const {
    std::vector<float> panels;
    for (size_t panel = 0; panel < 4 * n_hidden_; panel += kLstmPanel) {
      for (size_t k = 0; k < n_hidden_; ++k) {
        for (size_t j = panel; j < panel + kLstmPanel; ++j) {
          panels.push_back(weight_[j * n_hidden_ + k]);
        }
      }
    }
    return panels;
  }

  // in [n_sequences, n_steps, 4 * n_hidden], state [n_sequences, 2, n_hidden] (changed); returns
  // [n_sequences, n_steps, n_hidden].
  std::vector<double> run(const std::vector<float>& in, size_t n_sequences,
                          std::vector<double>& state) const {
    const size_t n = n_hidden_, n_steps = in.size() / (4 * n * n_sequences);
    std::vector<double> out;
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    for (size_t s = 0; s < n_sequences; ++s) {
      double* h = &state[s * 2 * n];
      double* c = h + n;
      for (size_t t = 0; t < n_steps; ++t) {
        std::vector<double> gates(4 * n);
        for (size_t j = 0; j < 4 * n; ++j) {
          gates[j] = double{in[(s * n_steps + t) * 4 * n + j]};
          for (size_t k = 0; k < n; ++k) gates[j] += double{weight_[j * n + k]} * h[k];
        }
        for (size_t u = 0; u < n; ++u) {
          c[u] = sigmoid(gates[n + u]) * c[u] + sigmoid(gates[u]) * std::tanh(gates[2 * n + u]);
          h[u] = sigmoid(gates[3 * n + u]) * std::tanh(c[u]);
          out.push_back(h[u]);
        }
      }
    }
    return out;
  }

 private:
  size_t n_hidden_;
  std::vector<float> weight_;
};

}  // namespace vesper

// The logits of a language model at every position of a text, for comparisons of models.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "llm/devices/open_device.h"
#include "llm/generation/generator.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// On the CPU in f32: [text.size(), n_vocab].
inline std::vector<float> all_logits(const WeightProvider& weights, std::span<const int32_t> text) {
  const auto device = open_device("cpu", {});
  Generator generator(*device, weights, Compute::kF32,
                      {.n_ctx = static_cast<uint32_t>(text.size()), .kv_types = DType::kF32});
  std::vector<float> all;
  generator.evaluate(text, [&](uint32_t, uint32_t n, const float* logits) {
    all.insert(all.end(), logits, logits + size_t{n} * generator.n_vocab());
  });
  return all;
}

// `n` different tokens of the tiny models, which have 64 or more.
inline std::vector<int32_t> text_of_tokens(uint32_t n) {
  std::vector<int32_t> text(n);
  for (uint32_t i = 0; i < n; ++i) text[i] = static_cast<int32_t>(i * 7 % 64);
  return text;
}

inline double largest_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(double{a[i]} - b[i]);
    worst = std::isnan(off) ? INFINITY : std::max(worst, off);
  }
  return worst;
}

}  // namespace vesper

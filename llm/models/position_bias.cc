#include "llm/models/position_bias.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

namespace vesper {
namespace {

// Of a head: for the largest power of two of heads a geometric sequence that ends with 2^-8, for
// the others the values between.
float alibi_slope(uint32_t head, uint32_t n_heads) {
  const auto n = static_cast<float>(std::bit_floor(n_heads));
  const auto h = static_cast<float>(head);
  return std::exp2(h < n ? -8.0f * (h + 1) / n : -4.0f * (2 * (h - n) + 1) / n);
}

// In f32, as transformers computes it.
uint32_t bucket_of(uint32_t distance, uint32_t n_buckets) {
  constexpr float kMostDistance = 128;
  const uint32_t n_exact = n_buckets / 2;
  if (distance < n_exact) return distance;
  const auto exact = static_cast<float>(n_exact);
  const float part =
      std::log(static_cast<float>(distance) / exact) / std::log(kMostDistance / exact);
  return std::min(n_exact + static_cast<uint32_t>(part * static_cast<float>(n_buckets - n_exact)),
                  n_buckets - 1);
}

}  // namespace

bool has_position_bias(const StackConfig& config) {
  return config.positions == PositionKind::kAlibi || config.n_bias_buckets != 0;
}

Operand upload_position_bias(const WeightUploader& upload, const WeightProvider& provider,
                             const StackConfig& config, uint32_t reach) {
  const std::string name = std::string(config.name) + ".position_bias.weight";
  const TensorView* buckets = config.n_bias_buckets != 0 ? &provider.require(name) : nullptr;
  return upload.store(config.n_heads * (2 * uint64_t{reach} + 1), name, [&] {
    return buckets == nullptr ? alibi_bias(config.n_heads, reach)
                              : bucket_bias(upload.read(*buckets), config.n_heads, reach);
  });
}

std::vector<float> alibi_bias(uint32_t n_heads, uint32_t reach) {
  std::vector<float> bias;
  for (uint32_t h = 0; h < n_heads; ++h) {
    const float slope = alibi_slope(h, n_heads);
    for (uint32_t i = 0; i <= 2 * reach; ++i) {
      bias.push_back(-slope * static_cast<float>(std::max(i, reach) - std::min(i, reach)));
    }
  }
  return bias;
}

std::vector<float> bucket_bias(std::span<const float> buckets, uint32_t n_heads, uint32_t reach) {
  const auto n_per_side = static_cast<uint32_t>(buckets.size() / n_heads / 2);
  std::vector<float> bias;
  for (uint32_t h = 0; h < n_heads; ++h) {
    for (uint32_t i = 0; i <= 2 * reach; ++i) {
      const uint32_t side = i < reach ? n_per_side : 0;
      const uint32_t distance = std::max(i, reach) - std::min(i, reach);
      bias.push_back(buckets[(side + bucket_of(distance, n_per_side)) * n_heads + h]);
    }
  }
  return bias;
}

}  // namespace vesper

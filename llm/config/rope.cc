#include "llm/config/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vesper {
namespace {

// As published with Llama 3.1.
double llama3_frequency(const RopeSettings& settings, double frequency) {
  const double rotations = settings.original_positions * frequency / (2 * std::numbers::pi);
  if (rotations < settings.low_frequency) return frequency / settings.factor;
  if (rotations > settings.high_frequency) return frequency;
  const double kept = (rotations - settings.low_frequency) /
                      (double{settings.high_frequency} - settings.low_frequency);
  return frequency * (kept + (1 - kept) / settings.factor);
}

// The pair (as a real number) that makes `rotations` rotations within the original positions.
double pair_of_rotations(const RopeSettings& settings, double rotations) {
  return settings.n_pairs *
         std::log(settings.original_positions / (rotations * 2 * std::numbers::pi)) /
         std::log(double{settings.theta});
}

// YaRN, section 3.2: a ramp over the pairs between beta_fast and beta_slow rotations.
double yarn_frequency(const RopeSettings& settings, uint32_t pair, double frequency) {
  double first = pair_of_rotations(settings, settings.beta_fast);
  double last = pair_of_rotations(settings, settings.beta_slow);
  if (settings.truncates) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, 2.0 * settings.n_pairs - 1);
  if (first == last) last += 0.001;
  const double scaled = std::clamp((pair - first) / (last - first), 0.0, 1.0);
  return frequency * (1 - scaled) + frequency / settings.factor * scaled;
}

}  // namespace

std::vector<float> rope_frequencies(const RopeSettings& settings, uint32_t n_positions) {
  const bool is_long =
      n_positions > settings.original_positions && !settings.long_freq_factors.empty();
  const std::vector<float>& factors = is_long ? settings.long_freq_factors : settings.freq_factors;
  std::vector<float> frequencies(settings.n_pairs);
  for (uint32_t i = 0; i < settings.n_pairs; ++i) {
    double frequency = std::pow(double{settings.theta}, -static_cast<double>(i) / settings.n_pairs);
    switch (settings.scaling) {
      case RopeScaling::kNone:
        break;
      case RopeScaling::kLinear:
        frequency /= settings.factor;
        break;
      case RopeScaling::kLlama3:
        frequency = llama3_frequency(settings, frequency);
        break;
      case RopeScaling::kYarn:
        frequency = yarn_frequency(settings, i, frequency);
        break;
    }
    if (!factors.empty()) frequency /= factors[i];
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

std::vector<float> rope_angles(const RopeSettings& settings, uint32_t n_positions) {
  const std::vector<float> frequencies = rope_frequencies(settings, n_positions);
  std::vector<float> angles;
  angles.reserve(size_t{n_positions} * settings.n_pairs * 2);
  for (uint32_t position = 0; position < n_positions; ++position) {
    for (const float frequency : frequencies) {
      // The product is f32, as in training.
      const double angle = static_cast<float>(position) * frequency;
      angles.push_back(static_cast<float>(std::cos(angle) * settings.magnitude));
      angles.push_back(static_cast<float>(std::sin(angle) * settings.magnitude));
    }
  }
  return angles;
}

}  // namespace vesper

#include "llm/config/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vesper {
namespace {

// Of the models published with Llama 3.1: by the wavelength.
double llama3_frequency(const RopeSettings& settings, double frequency) {
  const double turns = settings.original_positions * frequency / (2 * std::numbers::pi);
  if (turns < settings.low_frequency) return frequency / settings.factor;
  if (turns > settings.high_frequency) return frequency;
  const double kept =
      (turns - settings.low_frequency) / (double{settings.high_frequency} - settings.low_frequency);
  return frequency * (kept + (1 - kept) / settings.factor);
}

// The pair, as a real number, that makes so many turns within the original positions.
double pair_of_turns(const RopeSettings& settings, double turns) {
  return settings.n_pairs * std::log(settings.original_positions / (turns * 2 * std::numbers::pi)) /
         std::log(double{settings.theta});
}

// YaRN, section 3.2: a ramp over the pairs between beta_fast and beta_slow turns.
double yarn_frequency(const RopeSettings& settings, uint32_t pair, double frequency) {
  double first = pair_of_turns(settings, settings.beta_fast);
  double last = pair_of_turns(settings, settings.beta_slow);
  if (settings.truncates) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, 2.0 * settings.n_pairs - 1);
  if (first == last) last += 0.001;
  const double stretched = std::clamp((pair - first) / (last - first), 0.0, 1.0);
  return frequency * (1 - stretched) + frequency / settings.factor * stretched;
}

}  // namespace

std::vector<float> rope_frequencies(const RopeSettings& settings) {
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
    if (!settings.freq_factors.empty()) frequency /= settings.freq_factors[i];
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

std::vector<float> rope_angles(const RopeSettings& settings, uint32_t n_positions) {
  const std::vector<float> frequencies = rope_frequencies(settings);
  std::vector<float> angles;
  angles.reserve(size_t{n_positions} * settings.n_pairs * 2);
  for (uint32_t position = 0; position < n_positions; ++position) {
    for (const float frequency : frequencies) {
      // The product in f32, as models are trained with it.
      const double angle = static_cast<float>(position) * frequency;
      angles.push_back(static_cast<float>(std::cos(angle) * settings.magnitude));
      angles.push_back(static_cast<float>(std::sin(angle) * settings.magnitude));
    }
  }
  return angles;
}

}  // namespace vesper

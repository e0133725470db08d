// Rotary positions (Su et al., "RoFormer", 2021): the angles by which `rope` turns the heads of
// queries and keys at each position, and how models trained on short texts stretch them.
//
// In come a model's settings, out goes a table for the device. Called by llm/transformer.
#pragma once

#include <cstdint>
#include <vector>

namespace vesper {

enum class RopeScaling : uint32_t {
  kNone,
  kLinear,  // positions divided by `factor`
  kLlama3,  // slow angles divided by `factor`, fast ones kept, those between blended (Llama 3.1)
  kYarn,    // likewise, between counts of turns (Peng et al., "YaRN", 2023)
};

struct RopeSettings {
  float theta = 10000;
  uint32_t n_pairs = 0;  // of a head
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1;
  uint32_t original_positions = 0;  // that the model was trained on before it was stretched
  float low_frequency = 1, high_frequency = 4;  // of kLlama3: turns within original_positions
  float beta_slow = 1, beta_fast = 32;          // of kYarn, likewise
  bool truncates = true;                        // of kYarn: the ends of the blend are whole pairs
  // Each angle is divided by one of these (LongRoPE, and Llama 3 in GGUF); empty: by 1.
  std::vector<float> freq_factors;  // [n_pairs]
  float magnitude = 1;              // of cosines and sines
};

// The angle of each pair at position 1, [n_pairs].
std::vector<float> rope_frequencies(const RopeSettings& settings);

// Cosine and sine of each pair's angle, [n_positions, n_pairs, 2], times the magnitude.
std::vector<float> rope_angles(const RopeSettings& settings, uint32_t n_positions);

}  // namespace vesper

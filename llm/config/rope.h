// Rotary positions (Su et al., "RoFormer", 2021): the angles by which the kernel rope rotates the
// heads of queries and keys at each position, and how models trained on short contexts scale them.
//
// In come a model's settings, out goes a table for the device. Called by llm/models/transformer.
#pragma once

#include <cstdint>
#include <vector>

namespace vesper {

enum class RopeScaling : uint32_t {
  kNone,
  kLinear,  // positions divided by `factor`
  kLlama3,  // low frequencies divided by `factor`, high ones kept, a blend between (Llama 3.1)
  kYarn,    // likewise, by the number of rotations (Peng et al., "YaRN", 2023)
};

struct RopeSettings {
  float theta = 10000;   // base of the frequencies
  uint32_t n_pairs = 0;  // of numbers of a head that are rotated
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1;                             // of the scaling
  uint32_t original_positions = 0;              // the context before the scaling
  float low_frequency = 1, high_frequency = 4;  // of kLlama3: rotations within original_positions
  float beta_slow = 1, beta_fast = 32;          // of kYarn, likewise
  bool truncates = true;                        // of kYarn: the ends of the blend are whole pairs
  // Divisors of the frequencies, [n_pairs] or empty (LongRoPE, and Llama 3 in GGUF). Contexts
  // beyond original_positions take the long ones where there are any.
  std::vector<float> freq_factors, long_freq_factors;
  float magnitude = 1;  // of cosines and sines
};

// The frequency of each pair, which is its angle at position 1, [n_pairs], in a context of
// `n_positions`.
std::vector<float> rope_frequencies(const RopeSettings& settings, uint32_t n_positions);

// Cosine and sine of each pair's angle, [n_positions, n_pairs, 2], times the magnitude.
std::vector<float> rope_angles(const RopeSettings& settings, uint32_t n_positions);

}  // namespace vesper

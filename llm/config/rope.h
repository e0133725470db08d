// Rotary embeddings (Su et al., "RoFormer", 2021): cosines and sines for the kernel rope, and the
// scalings for contexts longer than those of the training.
//
// In: a model's settings. Out: a table for the device. Called by llm/models/transformer.
#pragma once

#include <cstdint>
#include <vector>

namespace vesper {

enum class RopeScaling : uint32_t {
  kNone,
  kLinear,  // positions divided by `factor`
  kLlama3,  // low frequencies divided by `factor`, high ones kept, others blended (Llama 3.1)
  kYarn,    // the same by number of rotations (Peng et al., "YaRN", 2023)
};

struct RopeSettings {
  float theta = 10000;   // base of the frequencies
  uint32_t n_pairs = 0;  // rotated pairs per head
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1;                             // of the scaling
  uint32_t original_positions = 0;              // context length before the scaling
  float low_frequency = 1, high_frequency = 4;  // of kLlama3: rotations within original_positions
  float beta_slow = 1, beta_fast = 32;          // of kYarn, likewise
  bool truncates = true;                        // of kYarn: the ends of the blend are integers
  // Frequency factors (divisors), [n_pairs] or empty (LongRoPE, and Llama 3 in GGUF). Contexts
  // longer than original_positions use the long ones if present.
  std::vector<float> freq_factors, long_freq_factors;
  float magnitude = 1;  // factor of cosines and sines
};

// The frequency of each pair in radians per position, [n_pairs], for a context of `n_positions`.
std::vector<float> rope_frequencies(const RopeSettings& settings, uint32_t n_positions);

// Cosine and sine of each pair, times the magnitude, [n_positions, n_pairs, 2].
std::vector<float> rope_angles(const RopeSettings& settings, uint32_t n_positions);

}  // namespace vesper

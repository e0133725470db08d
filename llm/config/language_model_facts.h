// What a model's files say of a language model: a stack of causal layers over text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llm/config/rope.h"

namespace vesper {

// Absent facts are 0 or empty; where a family has its own way, its row of
// llm/config/arch_descriptor says it (llm/models/language_model puts both together).
struct LanguageModelFacts {
  std::string arch;  // the row of llm/config/arch_descriptor that describes the family
  uint32_t n_vocab = 0, d_model = 0, n_layers = 0, d_ffn = 0;
  uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;
  uint32_t n_positions = 0;  // the longest context that the model is made for
  float norm_epsilon = 0;

  RopeSettings rope;  // but for freq_factors
  // LongRoPE: freq_factors of the angles for contexts up to rope.original_positions, and beyond.
  std::vector<float> short_freq_factors, long_freq_factors;  // [rope.n_pairs]
  bool interleaved_rope = false;  // how the file's queries and keys are ordered
  float window_rope_theta = 0;    // of layers with a window, where it differs

  uint32_t window = 0;                 // positions that a row of a layer with a window sees
  std::vector<bool> layer_has_window;  // [n_layers]; empty: as the family has it
  std::vector<bool> layer_has_rope;    // likewise

  float attention_scale = 0;
  float attention_soft_cap = 0, logit_soft_cap = 0;
  float norm_weight_offset = 0;  // to be added to the weights of all norms
  std::string problem;           // what of it the engine does not know; empty if nothing
};

}  // namespace vesper

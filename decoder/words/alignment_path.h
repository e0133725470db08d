// The path of a text through its audio: cross-attention probabilities become positions of tokens,
// by dynamic time warping. openai-whisper's timing.py, find_alignment.
//
// In: probabilities of a pass. Out: a position for each row. Called by
// decoder/words/whisper_aligner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vesper {

// Attention probabilities of some heads for the rows of a pass. Row r of head h starts at data[h *
// head_stride + r * row_stride].
struct HeadWeights {
  float* data = nullptr;
  size_t head_stride = 0, row_stride = 0;
  uint32_t n_heads = 0, n_rows = 0, n_positions = 0;
};

// Gives each position of a head mean 0 and standard deviation 1 over the rows (0 if constant).
void standardize_over_rows(const HeadWeights& weights);
// out[i] = median of in[i - 3 .. i + 3], mirrored at both ends; a copy if n < 4.
void median_filter_7(std::span<const float> in, float* out);
// Dynamic time warping: the path with the greatest sum through matrix [n_rows, n_positions], from
// the first row and position to the last, in steps of one row, one position or both. Returns the
// position at which it enters each row. Sizes are above 0.
std::vector<uint32_t> first_positions(std::span<const float> matrix, uint32_t n_rows,
                                      uint32_t n_positions);
// All three: changes the probabilities of all rows, returns the positions of rows [first_row,
// first_row + n_rows).
std::vector<uint32_t> align_rows(const HeadWeights& weights, uint32_t first_row, uint32_t n_rows);

}  // namespace vesper

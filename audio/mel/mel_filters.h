// The filter bank from the power spectrum to mel bands.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace vesper {

constexpr int kSpectrumBins = 201;  // of the 400-point DFT at 16 kHz: every 40 Hz from 0 to 8 kHz

// [n_mels, 201]: triangles on the mel scale of Slaney's Auditory Toolbox (linear below 1 kHz,
// logarithmic above), 0 to 8 kHz, each with constant area. Equals librosa's filters.mel with
// htk=False, norm="slaney", the source of Whisper's filters. Throws Error(kModel) if n_mels is not
// 1 to 512.
std::vector<float> slaney_mel_filters(int n_mels);

// The same bank without zeros: each band has few bins.
struct SparseFilters {
  struct Band {
    size_t first_bin;     // of the spectrum
    size_t n_bins;        // 0 if the whole band is zero
    size_t first_weight;  // into weights
  };
  std::vector<Band> bands;     // [n_mels]
  std::vector<float> weights;  // of all bands
};

// Throws Error(kModel) if `filters` is not [n_mels, 201] or has a value that is not finite.
SparseFilters sparse_filters(int n_mels, std::span<const float> filters);

}  // namespace vesper

// The filter bank between the power spectrum and the mel bands.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace vesper {

constexpr int kSpectrumBins = 201;  // of the 400-point DFT at 16 kHz: one every 40 Hz, 0 to 8 kHz

// [n_mels, 201]: triangles on the mel scale of Slaney's Auditory Toolbox (linear below 1 kHz,
// logarithmic above), 0 to 8 kHz, each scaled to constant area. The definition is that of librosa's
// filters.mel with htk=False, norm="slaney", which Whisper's own filters were made with.
// Throws Error(kModel) where n_mels is outside 1 to 512.
std::vector<float> slaney_mel_filters(int n_mels);

// The same bank without its zeros: each band touches few bins.
struct SparseFilters {
  struct Band {
    size_t first_bin;     // of the spectrum
    size_t n_bins;        // 0 where the whole band is zero
    size_t first_weight;  // into weights
  };
  std::vector<Band> bands;     // [n_mels]
  std::vector<float> weights;  // of all bands, one after another
};

// Throws Error(kModel) where `filters` is not [n_mels, 201] or holds a value that is not finite.
SparseFilters sparse_filters(int n_mels, std::span<const float> filters);

}  // namespace vesper

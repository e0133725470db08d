// Power spectra of overlapping frames. In: 16 kHz mono samples. Out: the squared magnitudes of
// 400-point DFTs under a periodic Hann window. Called by audio/mel/mel.cc.
//
// 400 = 16 * 25, and these have no common divisor. So the DFT is a two-dimensional one of 16 x 25
// points without twiddle factors between them (the prime-factor algorithm of Good and Thomas),
// which needs fewer operations and rounds less often than other factors. Vectors hold the same
// point of four frames.
#pragma once

#include <cstddef>

#include "audio/mel/mel.h"
#include "audio/mel/mel_filters.h"

namespace vesper {

constexpr size_t kDftSize = 400;  // samples in a frame: 25 ms at 16 kHz
constexpr size_t kFramesPerBatch = 16;
constexpr size_t kBatchSamples = (kFramesPerBatch - 1) * kMelHop + kDftSize;

class PowerSpectrum {
 public:
  PowerSpectrum();

  // Reads `samples`, [kBatchSamples]: frames begin kMelHop samples apart. Writes `power`,
  // [kSpectrumBins, kFramesPerBatch]. A frame's power does not depend on the other frames.
  void compute(const float* samples, float* power) const;

 private:
  float hann_[kDftSize];
};

}  // namespace vesper
